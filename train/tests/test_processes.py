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
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import ROOT

from armillary.errors import InputError, TrainingError
from armillary_train.run import launch

pytest.importorskip("torch")

TRAIN = [sys.executable, "-m", "armillary.cli", "train"]
SMALL = ["dlrm-small", "--batch", "512", "--threads", "1", "--eval-samples", "3000"]


def trained(*options: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [*TRAIN, *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == code, run.stdout + run.stderr
    return run


def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    """Sums of gradients of the MLPs are added in another order, and nothing else differs. No
    process loads PyTorch's compiler."""
    found = []
    for count in (1, 2):
        path = tmp_path / f"{count}.json"
        options = ["--steps", "25", "--nproc", str(count), "--json", str(path)]
        run = trained(*SMALL, *options, PYTHONPROFILEIMPORTTIME="1")
        assert "best possible" in run.stdout
        assert f"{count} process" in run.stdout
        loaded = Counter(line.rpartition("|")[2].strip() for line in run.stderr.splitlines())
        assert loaded["torch"] and not loaded["torch._dynamo"]
        found.append(json.loads(path.read_text()))
    one, two = (each["evaluations"][0] for each in found)
    for name in ("loss", "auc", "ne"):
        assert two[name] == pytest.approx(one[name], rel=1e-5)
    assert found[0]["bound"] == found[1]["bound"]
    assert found[1]["settings"]["nproc"] == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_process_ends_the_others(number: signal.Signals) -> None:
    run = subprocess.Popen(
        [*TRAIN, *SMALL, "--nproc", "2", "--steps", "1000000", "--timeout", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    victim = waiting_worker(run.pid, rank=1)
    os.kill(victim, number)
    begin = time.monotonic()
    _, said = run.communicate(timeout=30)
    assert time.monotonic() - begin < 15
    assert run.returncode == 1, said
    assert said.count("error:") == 1
    if number == signal.SIGKILL:
        assert "the process was ended by SIGKILL" in said and "rank 1" in said
    else:
        assert "rank 0" in said
    assert not alive(victim)


def test_ctrl_c_ends_all(tmp_path: Path) -> None:
    saved = ["--checkpoint", str(tmp_path), "--checkpoint-every", "1", "--decay", "none"]
    run = subprocess.Popen(
        [*TRAIN, *SMALL, "--nproc", "2", "--steps", "1000000", *saved],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    workers = [waiting_worker(run.pid, rank) for rank in (0, 1)]
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("step-*/manifest.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    step = max(int(each.parent.name[5:]) for each in tmp_path.glob("step-*/manifest.json"))
    assert said.strip() == f"interrupted; --resume goes on from step {step:,} in {tmp_path}"
    assert not any(map(alive, workers))


def test_a_parent_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [*TRAIN, *SMALL, "--nproc", "2", "--steps", "1000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    workers = [waiting_worker(run.pid, rank) for rank in (0, 1)]
    assert list(tmp_path.glob("armillary-train-*"))
    run.kill()
    run.wait()
    deadline = time.monotonic() + 30
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    assert not list(tmp_path.glob("armillary-train-*"))


def test_data_that_is_not_there(tmp_path: Path) -> None:
    """Before what a model of one count would say of Criteo's logs."""
    model = ROOT / "models/dlrm-small.yml"
    text = re.sub(r"dense_features: \d+", "dense_features: 1", model.read_text(encoding="utf-8"))
    (tmp_path / "model.yml").write_text(text, encoding="utf-8")
    run = trained(str(tmp_path / "model.yml"), "--data", "nonexistent", code=2)
    assert "error: there is no such file\n  in: nonexistent: --data" in run.stderr


def waiting_worker(parent: int, rank: int) -> int:
    """The process of a rank, once it trains: it has loaded PyTorch and its threads."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                environment = (path / "environ").read_bytes().split(b"\0")
                loaded = "libtorch" in (path / "maps").read_text()
            except OSError:
                continue
            if int(fields[1]) == parent and f"RANK={rank}".encode() in environment and loaded:
                time.sleep(2)
                return int(path.name)
        time.sleep(0.1)
    pytest.fail(f"rank {rank} has not started")


def alive(process: int) -> bool:
    """Whether a process runs. One that has ended may wait for its parent to read that."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize("options", [[], ["--json", "-"]])
def test_a_closed_pipe_ends_the_run_silently(count: str, options: list[str]) -> None:
    """As that of other commands: `armillary train ... | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [*TRAIN, *SMALL, "--steps", "1", "--nproc", count, *options]
    run = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, "")


def test_an_empty_folder_for_logs_is_refused() -> None:
    assert "in: --log-dir" in trained(*SMALL, "--log-dir", "", code=2).stderr


def test_a_fault_of_all_ranks_is_one_message() -> None:
    said = trained(*SMALL, "--nproc", "2", "--data", "/none", code=2).stderr
    assert said.count("error:") == 1 and "/none" in said


def test_a_loss_that_is_not_a_number_is_one_message_of_each_rank() -> None:
    given = ["--dense-optimizer", "sgd", "--dense-lr", "1e30", "--nproc", "2", "--steps", "50"]
    said = trained(*SMALL, *given, code=1).stderr
    assert said.count("error:") == said.count("error: the loss is") == 2
    assert said.count("in: rank 0\n") == said.count("in: rank 1\n") == 1


def test_a_loss_that_is_not_a_number_is_named_on_every_rank(tmp_path: Path) -> None:
    """The last batch has one sample, so that rank 1 has none."""
    folders = [tmp_path / "0", tmp_path / "1"]
    for each in folders:
        each.mkdir()
    given = ["dlrm-small", "--batch", "2", "--samples", "3", "--threads", "1", "--decay", "none"]
    given += ["--dense-optimizer", "sgd", "--dense-lr", "1e30"]
    said = by_torchrun([given, given], folders)
    assert all("the loss is" in each and "in: rank 0" in each for each in said), said


def test_files_that_differ_between_ranks(tmp_path: Path) -> None:
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
        [[str(model), "--data", "logs", "--batch", "8", "--threads", "1"]] * 2,
        [tmp_path / "0", tmp_path / "1"],
    )
    assert all("samples in one step" in each for each in said)


def by_torchrun(options: Sequence[Sequence[str]], folders: Sequence[Path]) -> list[str]:
    """Runs a process for each list of options with torchrun's environment; what each one says on
    its failure."""
    port = launch._free_port()
    runs = []
    for rank, (given, folder) in enumerate(zip(options, folders, strict=True)):
        (folder / "logs").symlink_to(folder)
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(len(options)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        runs.append(
            subprocess.Popen(
                [*TRAIN, *given], cwd=folder, env=environment, text=True, stderr=subprocess.PIPE
            )
        )
    said = [run.communicate(timeout=60)[1] for run in runs]
    assert all(run.returncode == 1 for run in runs), said
    return said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_never_comes(rank: int) -> None:
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    environment["MASTER_PORT"] = str(launch._free_port())
    run = subprocess.run(
        [*TRAIN, *SMALL, "--timeout", "2"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert run.stderr.startswith("error: not all of 2 processes could be reached within 2 s")
    assert len(run.stderr.splitlines()) == 2


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2)])
def test_ranks_that_disagree_about_their_number(sizes: tuple[int, int]) -> None:
    """Each machine may have been started with another number."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch._free_port())}
    begin = time.monotonic()
    runs = [
        subprocess.Popen(
            [*TRAIN, *SMALL],
            env={**shared, "RANK": str(rank), "WORLD_SIZE": str(size)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, size in enumerate(sizes)
    ]
    for rank, run in enumerate(runs):
        said = run.communicate(timeout=30)[1]
        assert run.returncode == 2, said
        here, there = sizes[rank], sizes[1 - rank]
        expected = f"WORLD_SIZE is {here} on rank {rank}, and {there} on rank {1 - rank}"
        assert said.startswith(f"error: {expected}")
    assert time.monotonic() - begin < 20


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
