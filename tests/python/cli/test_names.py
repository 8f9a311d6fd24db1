"""Names that are not UTF-8, and few open files: results, or exit code 2."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

RUN = "import sys, armillary_command as a; sys.exit(a.main())"
BAD = "bad\udcff"
"""Python's reading of the byte FF."""
PLATFORM = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 1 us, per: npu}\n"
ONE = ["collective", "all_reduce", "-b", "1M", "-e", "1M"]

VERBS = [
    ["check", "-p", BAD],
    ["check", BAD, "-p", "dgx-h100"],
    [*ONE, "-p", BAD],
    [*ONE, "-p", "p.yml", "--json", f"{BAD}.json"],
    [*ONE, "-p", "p.yml", "--report", f"{BAD}.html"],
    [*ONE, "-p", "p.yml", "--set", f"topology={BAD}"],
    [*ONE, "-p", f"{BAD}.yml", "--report", "r.html", "--json", "r.json"],
    ["run", BAD, "-p", "dgx-h100"],
    ["run", "llama-3-8b", "--tp", "2", "-p", f"{BAD}.yml", "--report", "r.html"],
    ["run", "llama-3-8b", "--tp", "2", "-p", "p.yml", "--timeline", f"{BAD}.pftrace"],
    ["workload", "llama-3-8b", "--tp", "2", "-o", BAD],
    ["workload", BAD, "-o", "out"],
    ["explain", BAD],
    ["report", BAD, "-o", "r.html"],
    ["compare", BAD, BAD],
    ["sweep", BAD],
    ["design", BAD],
    ["plan", BAD],
    ["import", BAD, "-o", "out"],
    ["ingest", "log.csv", "-o", BAD],
    ["ingest", BAD, "-o", "out"],
    ["calibrate", BAD, "-p", "dgx-h100"],
    ["traffic", "-p", BAD],
    ["traffic", "-p", "p.yml", "--pattern", f"{BAD}.csv"],
    ["platform", BAD],
    ["convert", BAD, "-o", "out"],
    ["checkpoint", "show", BAD],
    ["train", BAD],
]


def run(arguments: Sequence[str], folder: Path, files: int = 1024) -> tuple[int, str]:
    """Exit code and standard error of a command that may open so many files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(os.fsencode, arguments)],
        cwd=folder,
        capture_output=True,
        preexec_fn=limit,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("arguments", VERBS, ids=lambda arguments: " ".join(arguments)[:40])
def test_names_that_are_not_utf_8(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(PLATFORM, encoding="utf-8")
    (tmp_path / f"{BAD}.yml").write_text(PLATFORM, encoding="utf-8")
    (tmp_path / "log.csv").write_text("1\t2\t3\n" * 10, encoding="utf-8")
    code, said = run(arguments, tmp_path)
    assert code in (0, 2), said
    assert "internal error" not in said
    assert "Traceback" not in said


def test_charts_are_left_out_where_few_files_may_be_open(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(PLATFORM, encoding="utf-8")
    code, said = run([*ONE, "-p", "p.yml", "--report", "r.html"], tmp_path, 16)
    assert code in (0, 2), said
    assert "panicked" not in said
    assert "internal error" not in said
    assert "ulimit -n" in said
