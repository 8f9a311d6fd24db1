"""The fuzzer of the readers in Python, a few cases of each target; `make fuzz` runs many."""

from __future__ import annotations

import random
from pathlib import Path

import fuzz_readers
import mutate
import pytest
import targets
from target import Files, Target

CASES = {"journal": 4, "report": 10, "workload_json": 15, "design": 6, "step_trace": 4}


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.name)
def test_damaged_files_are_taken_or_refused(target: Target, tmp_path: Path) -> None:
    for number in range(CASES.get(target.name, 40)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert fuzz_readers.attempt(
            target, random.Random(f"test {target.name} {number}"), folder
        ) in (
            "taken",
            "refused",
        )


@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.name)
def test_files_as_they_are_written_are_taken(target: Target, tmp_path: Path) -> None:
    """Or else the fuzzer would only see the first check of a reader."""
    files = target.cases()[0]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert fuzz_readers.again(target, tmp_path, files) == "taken"


def test_the_same_seed_does_the_same_damage() -> None:
    data = b'{"a": [1, 2, {"b": "c"}]}\n' * 3
    assert mutate.damaged(data, random.Random(7)) == mutate.damaged(data, random.Random(7))
    assert len({mutate.damaged(data, random.Random(seed)) for seed in range(50)}) > 25


def test_a_fault_is_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_folder: Path, files: Files) -> object:
        return {"x": 1}[files["f"].decode("latin-1")]

    broken = Target("broken", lambda: [{"f": b"x"}], read)
    monkeypatch.setattr(fuzz_readers, "ROOT", tmp_path)
    assert not fuzz_readers._run(broken, 5, 0)
    [kept] = (tmp_path / "fuzz/artifacts").iterdir()
    assert (kept / "f").is_file()
