"""One build serves Rust's tests and the Python extension (`make test PROFILE=ci`)."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import ROOT


def features(*selection: str) -> set[str]:
    """Packages that are built for the host, with the features that they are built with."""
    lines = ["--prefix", "none", "--format", "{p} {f}", "--locked", "--offline"]
    run = subprocess.run(
        ["cargo", "tree", *selection, *lines], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode and "offline" in run.stderr:
        pytest.skip("the sources of dependencies are not at hand")
    assert run.returncode == 0, run.stderr
    return {line.removesuffix(" (*)").strip() for line in run.stdout.splitlines()}


@pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo")
def test_the_extension_needs_no_build_of_its_own() -> None:
    """Cargo builds a crate again for other features. A dependency of tests that turns more of them
    on belongs to a crate that the tests leave out, as criterion's does (`lab/bench/micro`), or to
    one whose tests are built alone, as the JSON Schema of reports does (`generate`)."""
    left_out = ("--exclude", "micro", "--exclude", "generate")
    tests = features("--workspace", *left_out, "--edges", "normal,build,dev")
    for name in ("armillary-py", "armillary-train", "armillary-peers"):
        extension = features("--package", name, "--edges", "normal,build")
        assert not extension - tests, name


@pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo")
def test_the_fuzzers_lock_file_is_fresh() -> None:
    """`fuzz` is a workspace of its own: `cargo update --workspace --offline` in it follows crates
    that were added or renamed."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    run = subprocess.run(command, cwd=ROOT / "fuzz", capture_output=True, text=True, check=False)
    if run.returncode and "--locked" not in run.stderr:
        pytest.skip("the sources of dependencies are not at hand")
    assert run.returncode == 0, run.stderr
