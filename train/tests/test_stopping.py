"""Ctrl-C and SIGTERM: a run with `--checkpoint` ends with a checkpoint, and what goes on from it
has the bits of a run that was never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_copies import Command, Copies
from runs import Runs, digest, runs

pytest.importorskip("torch")

from armillary_train.checkpoint.folder import Folder

TRAIN = ["train", "dlrm-small", "--threads", "1", "--decay", "none"]
BASE: dict[str, Any] = {
    "model": "dlrm-small",
    "global_batch": 64,
    "threads": 1,
    "steps": 150,
    "eval_every": 40,
    "eval_samples": 2000,
    "learning_rate": 0.05,
    "timeout": 20.0,
}


@pytest.fixture(scope="module")
def started() -> Iterator[Runs]:
    with runs() as made:
        yield made


CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "one": (1, {}),
    "two": (2, {}),
    "readers": (2, {"readers": 2}),
    "trains": (2, {"tensor_train": "rank=4,rows>=1"}),
    "mixed": (2, {"tensor_train": "rank=4,rows>=100", "optimizer": "adam"}),
    "caches": (1, {"cache": "64 KiB"}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    name: str, started: Runs, tmp_path: Path
) -> None:
    """One rank of several gets the signal. Checkpoints are made at stops and at the end only."""
    size, case = CASES[name]
    found = []
    for folder in ("whole", "cut"):
        settings = {**BASE, **case, "checkpoint": str(tmp_path / folder), "resume": True}
        for stop in (0.02, 0.1) if folder == "cut" else ():
            said = started.run(size, settings=settings, stop=stop)
            assert said == [{"killed": signal.SIGTERM}] * size
            assert Folder(tmp_path / folder).steps()
        outcome = started.good(size, settings=settings)
        for each in ("seconds", "checkpoints", "cache"):
            outcome.pop(each)
        found.append((outcome, digest(tmp_path / folder)))
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("options", [[], ["--ranks", "2", "--readers", "1"]], ids=["one", "two"])
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


@pytest.mark.parametrize("options", [[], ["--ranks", "2"]], ids=["one", "two"])
def test_a_second_signal_ends_a_run_at_once(
    options: list[str], trainings: Copies, tmp_path: Path
) -> None:
    """A step of this batch takes many seconds."""
    batch = ["--global-batch", "600000", "--steps", "10", "--checkpoint", str(tmp_path / "run")]
    run = trainings.start([*TRAIN, *batch, *options], tmp_path, os.environ)
    wait_for(run, tmp_path / "run" / "lock")
    time.sleep(1)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    said = run.communicate(30)[1]
    assert run.returncode == 143
    assert "interrupted; " in said and not Folder(tmp_path / "run").steps()


def test_a_second_signal_ends_a_long_computation(tmp_path: Path) -> None:
    """Python's handlers do not run meanwhile: a product of large matrices takes minutes."""
    program = """
import torch
from armillary_train.run.stopping import until_signal
torch.set_num_threads(1)
big = torch.ones(60000, 6000)
with until_signal(lambda: None):
    print("ready", flush=True)
    big @ big.T[:, :20000]
"""
    run = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None and run.stdout.readline() == "ready\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 143
    assert said.strip() == "interrupted; the last step is not in a checkpoint"


def begun(trainings: Copies, folder: Path, *options: str) -> Command:
    """A run that has made some steps: its log has a line for each hundredth of them."""
    steps = ["--global-batch", "64", "--steps", "10000", "--checkpoint-every", "1000000"]
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
