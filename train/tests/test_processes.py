"""Runs in two processes: they learn what one process learns, and end together when one fails."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_copies import Command, Copies
from conftest import ROOT

from armillary.errors import InputError, TrainingError
from armillary_train.run import launch

pytest.importorskip("torch")

TRAIN = [sys.executable, "-m", "armillary.cli", "train"]
"""A real start; most runs here are copies of a process that has loaded PyTorch."""
SMALL = ["dlrm-small", "--global-batch", "512", "--threads", "1", "--eval-samples", "3000"]


@dataclass(frozen=True)
class Trains:
    """Runs `armillary train` in a folder."""

    copies: Copies
    folder: Path

    def failed(self, *options: str, code: int = 2, **environment: str) -> str:
        """The message of a run that ends with an exit code."""
        run = self.copies.run(["train", *options], self.folder, {**os.environ, **environment})
        assert run.returncode == code, run.stdout + run.stderr
        return run.stderr

    def start(
        self,
        options: Sequence[str],
        environment: Mapping[str, str] = {},
        folder: Path | None = None,
        output: int | None = None,
    ) -> Command:
        """A run that goes on."""
        whole = {**os.environ, **environment}
        return self.copies.start(["train", *options], folder or self.folder, whole, output)


@pytest.fixture
def trains(trainings: Copies, tmp_path: Path) -> Trains:
    return Trains(trainings, tmp_path)


def test_two_processes_learn_what_one_learns(trains: Trains, tmp_path: Path) -> None:
    """Sums of gradients of the MLPs are added in another order, and nothing else differs. No
    process loads PyTorch's compiler: that of one rank loads what those of two load."""
    found = []
    for count in (1, 2):
        path = tmp_path / f"{count}.json"
        options = [*SMALL, "--steps", "25", "--ranks", str(count), "--json", str(path)]
        if count == 1:
            one = trains.start(options)
            said, errors = one.communicate()
            assert one.returncode == 0, errors
        else:
            two = subprocess.run(
                [*TRAIN, *options],
                env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            said, errors = two.stdout, two.stderr
            assert two.returncode == 0, errors
            loaded = Counter(line.rpartition("|")[2].strip() for line in errors.splitlines())
            assert loaded["torch"] and not loaded["torch._dynamo"]
        assert "best possible" in said
        assert f"{count} process" in said
        found.append(json.loads(path.read_text()))
    scores = [each["evaluations"][0] for each in found]
    for name in ("loss", "auc", "ne"):
        assert scores[1][name] == pytest.approx(scores[0][name], rel=1e-5)
    assert found[0]["bound"] == found[1]["bound"]
    assert found[1]["settings"]["ranks"] == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_process_ends_the_others(
    number: signal.Signals, trains: Trains, tmp_path: Path
) -> None:
    logs = ["--log-dir", str(tmp_path), "--decay", "none"]
    run = trains.start([*SMALL, "--ranks", "2", "--steps", "5000", "--timeout", "3", *logs])
    victim = begun(run, tmp_path, "log.jsonl")[1]
    os.kill(victim, number)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 1, said
    assert said.count("error:") == 1
    if number == signal.SIGKILL:
        assert "the process was ended by SIGKILL" in said and "rank 1" in said
    else:
        assert "rank 0" in said
    assert not alive(victim)


def test_ctrl_c_ends_all(trains: Trains, tmp_path: Path) -> None:
    saved = ["--checkpoint", str(tmp_path), "--checkpoint-every", "1", "--decay", "none"]
    run = trains.start([*SMALL, "--ranks", "2", "--steps", "1000000", *saved])
    workers = begun(run, tmp_path, "step-*/manifest.json")
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    step = max(int(each.parent.name[5:]) for each in tmp_path.glob("step-*/manifest.json"))
    assert said.strip() == f"interrupted; --resume goes on from step {step:,} in {tmp_path}"
    assert not any(map(alive, workers))


def test_a_parent_that_is_killed_leaves_nothing(trains: Trains, tmp_path: Path) -> None:
    given = [*SMALL, "--ranks", "2", "--steps", "5000", "--log-dir", str(tmp_path)]
    run = trains.start(given, {"TMPDIR": str(tmp_path)})
    workers = begun(run, tmp_path, "log.jsonl")
    assert len(workers) == 2 and list(tmp_path.glob("armillary-train-*"))
    run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    run.communicate(timeout=30)
    assert not list(tmp_path.glob("armillary-train-*"))


def test_data_that_is_not_there(trains: Trains, tmp_path: Path) -> None:
    """Before what a model of one count would say of Criteo's logs."""
    model = ROOT / "models/dlrm-small.yml"
    text = re.sub(r"dense_features: \d+", "dense_features: 1", model.read_text(encoding="utf-8"))
    (tmp_path / "model.yml").write_text(text, encoding="utf-8")
    said = trains.failed(str(tmp_path / "model.yml"), "--data", "nonexistent")
    assert "error: there is no such file\n  in: nonexistent: --data" in said


def begun(run: Command, folder: Path, pattern: str) -> list[int]:
    """The processes of the ranks, the first one first, of a copied run that has written a file."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and run.poll() is None:
        if any(path.stat().st_size for path in folder.glob(pattern)):
            return [*map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())]
        time.sleep(0.01)
    pytest.fail(f"the run has written no {pattern}, and its exit code is {run.returncode}")


def alive(process: int) -> bool:
    """Whether a process runs. One that has ended may wait for its parent to read that."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize("options", [[], ["--json", "-"]])
def test_a_closed_pipe_ends_the_run_silently(
    count: str, options: list[str], trains: Trains
) -> None:
    """As that of other commands: `armillary train ... | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    given = [*SMALL, "--steps", "1", "--ranks", count, *options]
    run = trains.start(given, output=writing)
    os.close(writing)
    _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (141, "")


def test_old_words_are_warnings_once_and_in_the_result(trains: Trains) -> None:
    options = ["train", "dlrm-small", "--nproc", "2", "--samples", "1024", "--json", "-"]
    found = trains.copies.run(options, trains.folder, os.environ)
    said = "--nproc is now called --ranks"
    assert found.stderr.count(said) == 1, found.stderr
    [warning] = json.loads(found.stdout)["warnings"]
    assert warning.startswith(said)


def test_an_empty_folder_for_logs_is_refused(trains: Trains) -> None:
    assert "in: --log-dir" in trains.failed(*SMALL, "--log-dir", "")


def test_a_fault_of_all_ranks_is_one_message(trains: Trains) -> None:
    said = trains.failed(*SMALL, "--ranks", "2", "--data", "/none")
    assert said.count("error:") == 1 and "/none" in said


def test_a_loss_that_is_not_a_number_is_one_message_of_each_rank(trains: Trains) -> None:
    given = ["--dense-optimizer", "sgd", "--dense-lr", "1e30", "--ranks", "2", "--steps", "50"]
    said = trains.failed(*SMALL, *given, code=1)
    assert said.count("error:") == said.count("error: the loss is") == 2
    assert said.count("in: rank 0\n") == said.count("in: rank 1\n") == 1


def test_a_loss_that_is_not_a_number_is_named_on_every_rank(trains: Trains, tmp_path: Path) -> None:
    """The last batch has one sample, so that rank 1 has none."""
    folders = [tmp_path / "0", tmp_path / "1"]
    for each in folders:
        each.mkdir()
    given = [
        "dlrm-small",
        "--global-batch",
        "2",
        "--samples",
        "3",
        "--threads",
        "1",
        "--decay",
        "none",
    ]
    given += ["--dense-optimizer", "sgd", "--dense-lr", "1e30"]
    said = by_torchrun(trains, [given, given], folders)
    assert all("the loss is" in each and "in: rank 0" in each for each in said), said


def test_files_that_differ_between_ranks(trains: Trains, tmp_path: Path) -> None:
    """Each rank reads another folder, as on machines with disks of their own."""
    line = "\t".join(["1", *(["3"] * 13), *(["a"] * 26)]) + "\n"
    for rank, lines in enumerate((20, 30)):
        (tmp_path / str(rank)).mkdir()
        for day in (0, 1):
            (tmp_path / str(rank) / f"day_{day}").write_text(line * lines)
    model = tmp_path / "model.yml"
    tables = "\n".join(f"  - {{name: c{index}, rows: 20, dim: 4}}" for index in range(26))
    model.write_text(
        "family: dlrm\ndense_features: 13\nbottom: [4]\ntop: [4, 1]\n"
        f"interaction: {{kind: dot}}\ntables:\n{tables}\n"
    )
    said = by_torchrun(
        trains,
        [[str(model), "--data", "logs", "--global-batch", "8", "--threads", "1"]] * 2,
        [tmp_path / "0", tmp_path / "1"],
    )
    assert all("samples in one step" in each for each in said)


def by_torchrun(
    trains: Trains, options: Sequence[Sequence[str]], folders: Sequence[Path]
) -> list[str]:
    """Runs a process for each list of options with torchrun's environment; what each one says on
    its failure."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch._free_port())}
    runs = []
    for rank, (given, folder) in enumerate(zip(options, folders, strict=True)):
        (folder / "logs").symlink_to(folder)
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(options))}
        runs.append(trains.start(given, {**shared, **place}, folder))
    said = [run.communicate(timeout=60)[1] for run in runs]
    assert all(run.returncode == 1 for run in runs), said
    return said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_never_comes(rank: int, trains: Trains) -> None:
    place = {"RANK": str(rank), "WORLD_SIZE": "2"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch._free_port())}
    said = trains.failed(*SMALL, "--timeout", "2", code=1, **place)
    assert said.startswith("error: not all of 2 processes could be reached within 2 s")
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_ranks_that_disagree_about_their_number(sizes: tuple[int, int], trains: Trains) -> None:
    """Each machine may have been started with another number."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch._free_port())}
    runs = [
        trains.start(SMALL, {**shared, "RANK": str(rank), "WORLD_SIZE": str(size)})
        for rank, size in enumerate(sizes)
    ]
    for rank, run in enumerate(runs):
        _, said = run.communicate(timeout=30)
        assert run.returncode == 2, said
        here, there = sizes[rank], sizes[1 - rank]
        expected = f"WORLD_SIZE is {here} on rank {rank}, and {there} on rank {1 - rank}"
        assert said.startswith(f"error: {expected}")


def test_reasons_are_those_of_the_first_rank(tmp_path: Path) -> None:
    """What a rank says for want of another one is not the reason."""
    reports = [
        {"time": 1, "rank": 0, "kind": "LostContactError", "problems": [problem("rank 0", "lost")]},
        {"time": 2, "rank": 1, "kind": "InputError", "problems": [problem("line 3", "wrong")]},
        {"time": 3, "rank": 2, "kind": "TrainingError", "problems": [problem("rank 2", "later")]},
    ]
    for each in reports:
        (tmp_path / f"fault-{each['rank']}.json").write_text(json.dumps(each))
    assert isinstance(launch._reason([], tmp_path), InputError)
    (tmp_path / "fault-1.json").unlink()
    assert str(launch._reason([], tmp_path)) == "rank 2: later"
    (tmp_path / "fault-2.json").unlink()
    found = launch._reason([], tmp_path)
    assert isinstance(found, TrainingError) and str(found) == "rank 0: lost"


def problem(place: str, message: str) -> dict[str, str]:
    return {"file": "", "place": place, "message": message}
