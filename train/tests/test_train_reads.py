"""Every file of the trainer that others wrote is opened by the bounded reader of `documents`."""

from __future__ import annotations

from conftest import ROOT
from opened_files import opened

PACKAGE = ROOT / "train/python/armillary_train"
ELSEWHERE = {
    "bench/run.py": "what Linux says about the processor",
    "checkpoint/content.py": "calls Tensors.open, which uses the reader",
    "data/dataset.py": "calls Tensors.open, which uses the reader",
    "ranks/exchange.py": "memory that ranks share",
    "run/launch.py": "reports of the processes that it started, in its own folder",
    "run/profiler.py": "the profile that PyTorch just wrote",
    "data/shuffle.py": "scratch files of its own",
}
"""Files that open others otherwise, and why it is safe."""


def test_files_are_opened_by_the_bounded_reader() -> None:
    found = {
        f"{name}: {line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := str(path.relative_to(PACKAGE))) not in ELSEWHERE
        for line in opened(path)
    }
    assert not found


def test_exceptions_are_still_needed() -> None:
    unused = [name for name in ELSEWHERE if not any(opened(PACKAGE / name))]
    assert not unused
