"""One build serves Rust's tests and the Python extension (`make test PROFILE=ci`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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


_PYTHON = """#!/bin/sh
case "$2" in
    *version_info*) echo {version} ;;
    *CONFIG_ARGS*) exit {plain} ;;
esac
"""
"""A Python that says its version, and whether it was compiled without optimizations."""


@pytest.mark.skipif(not shutil.which("cargo") or not shutil.which("cc"), reason="no tools")
@pytest.mark.parametrize(
    ("pythons", "asked", "chosen"),
    [
        ({"python3": ("3.12", 0), "python3.13": ("3.13", 0)}, None, "python3"),
        ({"python3": ("3.12", 1), "python3.13": ("3.13", 0)}, None, "python3.13"),
        ({"python3": ("3.9", 0), "python3.14": ("3.14", 0)}, None, "python3.14"),
        ({"python3": ("3.12", 1), "python3.13": ("3.13", 0)}, "python3", "python3"),
    ],
)
def test_an_optimized_python_comes_first(
    pythons: dict[str, tuple[str, int]], asked: str | None, chosen: str, tmp_path: Path
) -> None:
    for name, (version, plain) in pythons.items():
        (tmp_path / name).write_text(_PYTHON.format(version=version, plain=plain))
        (tmp_path / name).chmod(0o755)
    known = {"PYTHON_MINIMUM": "3.11", "RUST_MINIMUM": "1.80", "HOME": os.environ["HOME"]}
    known["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    if asked:
        known["PYTHON"] = asked
    command = ["bash", str(ROOT / ".ci/prerequisites")]
    run = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{chosen}\n"), run.stderr
