"""Readers: the batches of the source in its order, errors with their place, and no process that
waits for one that is gone."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_copies import Copies
from conftest import ROOT
from test_criteo import line, written
from thorough import some

from armillary.errors import InputError, LostContactError
from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary_train.data import Part, Position, open_data
from armillary_train.data.ingest import ingest
from armillary_train.data.readers import SLOTS, Readers
from armillary_train.data.recipe import criteo
from armillary_train.settings import Settings
from armillary_train.tensor_files import Tensors

MODEL = str(ROOT / "examples/clicks/model.yml")
FACTS = parse(load_model(MODEL))


def readers(data: str, count: int, **options: float) -> Readers:
    settings = Settings(MODEL, data=data, readers=count, samples=200, **options)  # type: ignore[arg-type]
    return Readers(open_data(settings, FACTS)[0], settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file of seven times 40 lines, and the same ingested."""
    folder = tmp_path_factory.mktemp("data")
    path = written(folder / "log", range(280))
    recipe = criteo().with_rows([table.rows for table in FACTS.tables], "")
    ingest([path], folder / "data", recipe, threads=1)
    return folder


def same(one: Part, other: Part) -> None:
    assert (one.first, one.whole, one.after) == (other.first, other.whole, other.after)
    for name in ("dense", "lengths", "indices", "labels"):
        first, second = getattr(one.samples, name), getattr(other.samples, name)
        assert first.dtype == second.dtype and np.array_equal(first, second), name


@pytest.mark.parametrize(
    ("name", "count", "rank", "ranks", "start"),
    some(
        [
            ("log", 2, 0, 2, 50),
            ("data", 1, 0, 1, 0),
            ("data", 3, 1, 2, 50),
            ("synthetic", 2, 1, 2, 50),
        ]
    ),
)
def test_readers_change_nothing(
    folder: Path, name: str, count: int, rank: int, ranks: int, start: int
) -> None:
    source = readers(name if name == "synthetic" else str(folder / name), count)
    place = Position(4, start)
    expected = list(source._source.parts(32, rank, ranks, place))
    found = list(source.parts(32, rank, ranks, place))
    assert len(found) == len(expected) > 4
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_errors_have_a_place(folder: Path) -> None:
    lines = [line(number) for number in range(280)]
    lines[70] = lines[70].partition("\t")[2]
    path = folder / "wrong"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match="wrong: line 71: has 39 fields"):
        list(readers(str(path), 2).parts(32, 0, 1))


def children() -> list[int]:
    """Processes that this one started and that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.append(int(each.parent.name))
    return found


def begun(folder: Path) -> tuple[Iterator[Part], list[int]]:
    """The rest of a pass by two readers, and their processes."""
    before = children()
    parts = readers(str(folder / "data"), 2).parts(8, 0, 1)
    next(parts)
    return parts, sorted(set(children()) - set(before))


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


@needs_proc
def test_a_reader_that_is_killed_is_named(folder: Path) -> None:
    parts, processes = begun(folder)
    assert len(processes) == 2
    os.kill(processes[1], signal.SIGKILL)
    with pytest.raises(LostContactError, match="reader 1 of rank 0: the process was ended by SIGK"):
        list(parts)
    assert not set(children()) & set(processes)


@needs_proc
def test_a_reader_that_is_silent_is_named(folder: Path) -> None:
    parts, processes = begun(folder)
    for reader in parts.gi_frame.f_locals["running"]:  # type: ignore[attr-defined]
        reader._timeout = 1.0
    os.kill(processes[0], signal.SIGSTOP)
    with pytest.raises(LostContactError, match="reader 0 of rank 0: gave no batch for 1 s"):
        list(parts)
    assert not set(children()) & set(processes)


@needs_proc
def test_readers_wait_for_the_trainer(folder: Path) -> None:
    """The pipe of each has no more than its slots, however long the trainer takes."""
    parts, _ = begun(folder)
    running = parts.gi_frame.f_locals["running"]  # type: ignore[attr-defined]
    time.sleep(1.0)
    for reader in running:
        said = os.read(reader._process.stdout.fileno(), 2**20)
        assert (reader._rest + said).count(b"\n") == SLOTS
        reader._rest += said
    assert sum(len(part.samples) for part in parts) == 240 - 8
    parts.close()  # type: ignore[attr-defined]


def tensors_of(folder: Path, run: str) -> dict[str, bytes]:
    """The tables, the parameters and the state of optimizers of a run's last checkpoint."""
    from armillary_train.checkpoint import export
    from armillary_train.checkpoint.content import Content
    from armillary_train.checkpoint.folder import last

    out = folder / f"plain-{run}"
    export.export(Content(*last(folder / run)), str(out), lambda _: None)
    found = [Tensors.open(path) for path in sorted(out.glob("*.safetensors"))]
    return {key: each.read(key).tobytes() for each in found for key in each.specs}


def test_a_killed_run_goes_on_behind_its_last_sample(trainings: Copies, folder: Path) -> None:
    """In the middle of the second pass over the data, with readers. The parameters have the bits
    of a run without readers that was never killed: no sample was lost, and none was there twice."""
    pytest.importorskip("torch")
    options = [
        "train",
        MODEL,
        "--data",
        str(folder / "data"),
        "--global-batch",
        "16",
        "--steps",
        "40",
    ]
    options += ["--checkpoint-every", "3", "--threads", "1", "--checkpoint"]
    whole = trainings.run([*options, str(folder / "whole")], folder, os.environ)
    assert whole.returncode == 0, whole.stderr
    killed = [*options, str(folder / "killed"), "--readers", "2"]
    run = trainings.start(killed, folder, os.environ)
    place = folder / "killed"
    while run.poll() is None and not list(place.glob("step-000000000018/manifest.json")):
        time.sleep(0.001)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    last = max(path.parent.name for path in place.glob("step-*/manifest.json"))
    assert "step-000000000018" <= last < "step-000000000040"
    again = trainings.run([*killed, "--resume"], folder, os.environ)
    assert again.returncode == 0, again.stderr
    tensors = tensors_of(folder, "killed")
    assert len(tensors) > 2 * len(FACTS.tables)
    assert tensors == tensors_of(folder, "whole")


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_data_changes_nothing(folder: Path) -> None:
    """On a local cluster of Ray, also behind a sample in the middle, for a rank of several."""
    pytest.importorskip("pyarrow", reason="Ray Data is not installed")
    ray = pytest.importorskip("ray")

    from armillary_train.data.ray_readers import RayReaders

    settings = Settings(MODEL, data=str(folder / "data"), readers=2, readers_on="ray")
    data = open_data(settings, FACTS)[0]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        expected = list(data.parts(32, 1, 2, Position(4, 50)))
        found = list(RayReaders(data, settings).parts(32, 1, 2, Position(4, 50)))
    finally:
        ray.shutdown()
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_ray_data_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from armillary_train.data import ray_readers

    settings = Settings(MODEL, data=str(folder / "data"), readers=2, readers_on="ray")
    data = open_data(settings, FACTS)[0]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match="Ray Data is not installed"):
        ray_readers.RayReaders(data, settings)
    unknown = replace(Settings(MODEL), readers_on="ray")
    with pytest.raises(InputError, match="--readers-on: is for runs with readers"):
        unknown.check()
