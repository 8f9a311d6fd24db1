"""Ctrl-C and SIGTERM: a run with `--checkpoint` ends with a checkpoint, and what goes on from it
has the bits of a run that was never stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_copies import Command, Copies
from runs import Runs, digest, runs
from thorough import some

pytest.importorskip("torch")

from armillary_train.checkpoint.folder import Folder

TRAIN = ["train", "dlrm-small", "--threads", "1", "--decay", "none"]
BASE: dict[str, Any] = {
    "model": "dlrm-small",
    "global_batch": 64,
    "threads": 1,
    "steps": 30,
    "eval_every": 10,
    "eval_samples": 300,
    "learning_rate": 0.05,
    "timeout": 20.0,
}


@pytest.fixture(scope="module")
def started(trainings: Copies) -> Iterator[Runs]:
    with runs(trainings) as made:
        yield made


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "one": (1, {}),
    "readers": (1, {"readers": 2}),
    "trains": (2, {"tensor_train": "rank=4,rows>=1"}),
    "mixed": (2, {"tensor_train": "rank=4,rows>=100", "optimizer": "adam"}),
    "caches": (1, {"cache": "64 KiB"}),
}


STOPS: dict[str, list[tuple[int, float]]] = {
    "one": [(3, 0.0), (9, 0.002)],
    "readers": [(4, 0.001)],
    "trains": [(11, 0.0)],
    "mixed": [(3, 0.0), (9, 0.001)],
    "caches": [(7, 0.0)],
}
"""Steps, and seconds more, after which a run is stopped, and goes on."""


@pytest.mark.parametrize("name", some(CASES))
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    name: str, started: Runs, tmp_path: Path
) -> None:
    """One rank of several gets the signal. Checkpoints are made at stops and at the end only."""
    size, case = CASES[name]
    found = []
    for folder in ("whole", "cut"):
        settings = {**BASE, **case, "checkpoint": str(tmp_path / folder), "resume": True}
        for stop in STOPS[name] if folder == "cut" else ():
            said = started.run(size, settings=settings, stop=stop)
            assert said == [{"killed": signal.SIGTERM}] * size
            assert Folder(tmp_path / folder).steps()
        outcome = started.good(size, settings=settings)
        for each in ("seconds", "checkpoints", "cache"):
            outcome.pop(each)
        found.append((outcome, digest(tmp_path / folder)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("number", "options"),
    [(signal.SIGINT, []), (signal.SIGTERM, ["--ranks", "2", "--readers", "1"])],
    ids=["one", "two"],
)
def test_a_signal_ends_a_run_with_a_checkpoint(
    number: signal.Signals, options: list[str], trainings: Copies, tmp_path: Path
) -> None:
    run = begun(trainings, tmp_path, *options, "--checkpoint", str(tmp_path / "run"))
    run.send_signal(number)
    said = run.communicate(60)[1]
    assert run.returncode == 128 + number, said
    (step,) = Folder(tmp_path / "run").steps()
    expected = f"interrupted; --resume goes on from step {step:,} in {tmp_path / 'run'}"
    assert said.strip() == expected


def test_a_run_without_checkpoints_says_what_is_lost(trainings: Copies, tmp_path: Path) -> None:
    run = begun(trainings, tmp_path)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(60)[1]
    assert run.returncode == 143
    expected = "interrupted; all steps are lost: --checkpoint DIR would have kept them"
    assert said.strip() == expected


STEPPING = """
import sys, time
from pathlib import Path
from armillary.cli import main
from armillary_train.run.loop import Trainer

def step(*_):
    Path("stepping").write_text("now")
    time.sleep(300)

Trainer.step = step
sys.argv[1:] = sys.argv[3:]
sys.exit(main())
"""
"""A program in Python: the command line behind `-c` and the program, with steps of minutes."""


@pytest.mark.parametrize("options", [[], ["--ranks", "2"]], ids=["one", "two"])
def test_a_second_signal_ends_a_run_at_once(
    options: list[str], trainings: Copies, tmp_path: Path
) -> None:
    command = [*TRAIN, "--steps", "10", "--checkpoint", str(tmp_path / "run"), *options]
    run = trainings.start(["-c", STEPPING, *command], tmp_path, os.environ)
    wait_for(run, tmp_path / "stepping", 1)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    said = run.communicate(30)[1]
    assert run.returncode == 143
    assert "interrupted; " in said and not Folder(tmp_path / "run").steps()


def test_a_second_signal_ends_a_long_computation(trainings: Copies, tmp_path: Path) -> None:
    """Python's handlers do not run meanwhile: a thread that waits for itself in C never returns,
    as a product of large matrices does not for minutes."""
    program = """
import ctypes
from pathlib import Path
from armillary_train.run.stopping import until_signal
lock, library = ctypes.create_string_buffer(1024), ctypes.CDLL(None)
library.pthread_mutex_init(lock, None)
library.pthread_mutex_lock(lock)
with until_signal(lambda: None):
    Path("ready").write_text("now")
    library.pthread_mutex_lock(lock)
"""
    run = trainings.start(["-c", program], tmp_path, os.environ)
    wait_for(run, tmp_path / "ready", 1)
    time.sleep(0.2)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    said = run.communicate(30)[1]
    assert run.returncode == 143
    assert said.strip() == "interrupted; the last step is not in a checkpoint"


def begun(trainings: Copies, folder: Path, *options: str) -> Command:
    """A run that has made some steps: its log has a line for each hundredth of them."""
    steps = ["--global-batch", "64", "--steps", "3000", "--checkpoint-every", "1000000"]
    logs = ["--log-dir", str(folder / "logs")]
    run = trainings.start([*TRAIN, *steps, *logs, *options], folder, os.environ)
    wait_for(run, folder / "logs" / "log.jsonl", 1)
    return run


def wait_for(run: Command, file: Path, size: int = 0) -> None:
    """Returns when a run has written a file of some size."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and run.poll() is None:
        if file.exists() and file.stat().st_size >= size:
            return
        time.sleep(0.01)
    pytest.fail(f"the run has not written {file.name}, and its exit code is {run.returncode}")
