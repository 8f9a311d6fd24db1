"""Manifests of checkpoints and of ingested data that were changed on purpose: their checksums fit,
because anybody can compute a CRC."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from armillary.errors import InputError
from armillary.model import load_model
from armillary.model.dlrm import parse

pytest.importorskip("torch")

from armillary_train.checkpoint.content import Content
from armillary_train.checkpoint.export import export
from armillary_train.checkpoint.folder import Folder, last
from armillary_train.checkpoint.run_checkpoints import checkpoints
from armillary_train.checkpoint.tensor_cover import tiles
from armillary_train.ranks.world import World
from armillary_train.run import loop
from armillary_train.settings import Settings
from armillary_train.tensor_files import Spec, Tensors, Writer

FACTS = parse(load_model(str(ROOT / "examples/checkpoints/dlrm.yml")))


def settings(folder: Path, **other: Any) -> Settings:  # noqa: ANN401
    return Settings(
        FACTS.name, checkpoint=str(folder), threads=1, global_batch=1, eval_samples=50, steps=4,
        checkpoint_every=2, dense_optimizer="adam", **other,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    loop.train(settings(folder), FACTS, World())
    assert Folder(folder).manifest(4).base == 2
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def sealed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a manifest and corrects its checksum."""
    body = json.loads(path.read_text())
    del body["checksum"]
    change(body)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**body, "checksum": zlib.crc32(text.encode())}))


def resume(folder: Path) -> loop.Trainer:
    trainer = loop.Trainer(settings(folder, resume=True), FACTS, World())
    with checkpoints(trainer, loop.Outcome()):
        return trainer


def refused(run: Path, match: str, step: int = 4) -> None:
    """By everything that reads checkpoints, and not with advice to remove something else."""
    readers: list[Callable[[], object]] = [
        lambda: Content(*last(run)).check(),
        lambda: export(Content(*last(run)), str(run.parent / "out"), lambda _: None),
        lambda: resume(run),
    ]
    for read in readers:
        with pytest.raises(InputError, match=match) as error:
            read()
        for problem in error.value.problems:
            removed = problem.help.partition("remove ")[2].partition(" to go on")[0]
            assert removed in ("", str(Folder(run).of(step)))
    assert not (run.parent / "out").exists()


def of(run: Path, step: int = 4) -> Path:
    return Folder(run).of(step) / "manifest.json"


@pytest.mark.parametrize("base", [4, 6, 10**14])
def test_a_base_that_leads_back_ends(base: int, run: Path) -> None:
    sealed(of(run), lambda body: body.update(base=base))
    refused(run, "which is not before step 4")


def test_a_base_that_leads_on_and_back_ends(run: Path) -> None:
    sealed(of(run, 2), lambda body: body.update(base=4))
    refused(run, "which is not before step 2", 2)


def test_a_manifest_of_another_step(run: Path) -> None:
    sealed(of(run), lambda body: body.update(step=3, base=2))
    refused(run, "is 3, and its folder is that of 4")


@pytest.mark.parametrize("name", ["/etc/passwd", "/dev/zero", "../x", "", "..", ".", "a/b", "a\0"])
def test_files_are_those_of_the_folder(name: str, run: Path) -> None:
    def change(body: dict[str, Any]) -> None:
        body["files"][0]["name"] = name
        for entry in body["entries"]:
            entry["file"] = name

    sealed(of(run), change)
    refused(run, "is not a file of the folder")


def test_a_device_is_not_read(run: Path) -> None:
    path = next(Folder(run).of(4).glob("*.safetensors"))
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(run, "is not a file")


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda body: body["entries"][0].update(rows=[0]),
    lambda body: body["entries"][0].update(columns="ab"),
    lambda body: body["entries"][0].update(rows=[5, 2]),
    lambda body: body["entries"][0].update(rows=[0, 10**9]),
    lambda body: body["entries"][0].update(changed=-1),
    lambda body: body["entries"][0].update(changed=10**9),
    lambda body: body["entries"][0].update(kind="I64"),
    lambda body: body["entries"][0].update(kind=7),
    lambda body: body["entries"][0].update(part="unknown"),
    lambda body: body["entries"][0].update(table="unknown"),
    lambda body: body["entries"][0].update(file="unknown"),
    lambda body: body.update(entries={}),
    lambda body: body.update(tables=[]),
    lambda body: body["tables"].append(body["tables"][0]),
    lambda body: body["tables"][0].update(rows=2**60),
    lambda body: body["tables"][0].update(dtype="F64"),
    lambda body: body["tables"][0].update(state=[]),
    lambda body: body["files"].append(body["files"][0]),
    lambda body: body["files"][0].update(bytes=-5),
    lambda body: body["files"][0].update(tensors=[]),
    lambda body: body["files"][0].update(tensors={}),
    lambda body: body["progress"].update(samples="many"),
    lambda body: body["progress"].update(position=None),
    lambda body: body["progress"].update(evaluations=[{}]),
    lambda body: body["progress"].update(bound=[1]),
    lambda body: body["progress"].update(interaction="x"),
    lambda body: body["progress"].pop("updates"),
    lambda body: body.update(settings={"model": 3}),
    lambda body: body.update(settings=5),
    lambda body: body.update(precision="fp4"),
    lambda body: body.update(ranks=0),
    lambda body: body.update(other=1),
    lambda body: body.pop("run"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_other_types_and_contradictions(number: int, run: Path) -> None:
    sealed(of(run), CHANGES[number])
    refused(run, "manifest.json")


def test_rows_that_are_there_twice(run: Path) -> None:
    """The sum of their elements is right, and others are missing."""

    def change(body: dict[str, Any]) -> None:
        table = body["tables"][0]["name"]
        some = [each for each in body["entries"] if each["table"] == table]
        for each in some:
            half = body["tables"][0]["rows"] // 2
            body["entries"].remove(each)
            body["entries"] += [{**each, "rows": [0, half]}] * 2

    sealed(of(run, 2), change)
    refused(run, "table", 2)


@pytest.mark.parametrize(
    ("boxes", "whole"),
    [
        ([((0, 0), (4, 6))], True),
        ([((0, 0), (4, 3)), ((0, 3), (4, 3))], True),
        ([((0, 0), (1, 6)), ((1, 0), (3, 2)), ((1, 2), (3, 4))], True),
        ([((0, 0), (4, 6)), ((2, 2), (0, 3))], True),
        ([((0, 0), (4, 3)), ((0, 0), (4, 3))], False),
        ([((0, 0), (4, 3))], False),
        ([((0, 0), (4, 3)), ((0, 4), (4, 3))], False),
        ([((0, 0), (2, 6)), ((1, 0), (2, 6))], False),
        ([], False),
    ],
)
def test_parts_are_the_whole(boxes: list[Any], whole: bool) -> None:
    assert tiles(boxes, (4, 6)) is whole


def rewritten(run: Path, change: Callable[[dict[str, tuple[str, Any]]], object]) -> None:
    """Changes the tensors of the last checkpoint, with all of its checksums."""
    path = next(Folder(run).of(4).glob("*.safetensors"))
    old = Tensors.open(path)
    found = {key: (spec.dtype, old.read(key).copy()) for key, spec in old.specs.items()}
    change(found)
    writer = Writer(path, [Spec(key, kind, each.shape) for key, (kind, each) in found.items()])
    for key, (_, each) in found.items():
        writer.write(key, each)
    record = writer.end()
    body = {
        "name": record.name, "bytes": record.bytes, "header": record.header,
        "tensors": record.tensors,
    }  # fmt: skip
    sealed(of(run), lambda manifest: manifest.update(files=[body]))


def test_other_tensors(run: Path) -> None:
    """Types, shapes and contents that no training has."""

    def turned(found: dict[str, tuple[str, Any]]) -> None:
        for key in found:
            if ".rows[" in key:
                found[key] = "I64", found[key][1][::-1].copy()

    def key(found: dict[str, Any], text: str) -> str:
        return next(each for each in found if text in each)

    words = np.frombuffer(b'{"python": 1, "numpy": 2}', np.uint8)
    changes: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (turned, "out of order"),
        (lambda found: found.pop(key(found, ".exp_avg")), "dense optimizer"),
        (
            lambda found: found.update({"dense_optimizer.x.y": ("F32", np.zeros(1, np.float32))}),
            "optimizer",
        ),
        (
            lambda found: found.update(
                {"dense_optimizer.99999.step": ("F32", np.zeros((), np.float32))}
            ),
            "optimizer",
        ),
        (lambda found: found.update({"metrics.x": ("F64", np.zeros(3))}), "metrics"),
        (lambda found: found.update({"metrics.0": ("F64", np.zeros(3))}), "metrics"),
        (lambda found: found.update({"random.0.torch": ("U8", np.zeros(7, np.uint8))}), "random"),
        (lambda found: found.update({"random.0.other": ("U8", words)}), "random"),
        (lambda found: found.pop("random.0.other"), "random"),
        (lambda found: found.pop(key(found, "dense.top")), "dense parameter"),
    ]
    whole = run.with_name("whole")
    shutil.copytree(run, whole)
    for change, match in changes:
        shutil.rmtree(run)
        shutil.copytree(whole, run)
        rewritten(run, change)
        Content(*last(run)).check()
        with pytest.raises(InputError, match=match):
            resume(run)


def test_tensors_do_not_share_bytes(tmp_path: Path) -> None:
    """Or else a small file would have tables of any size."""
    each = {"dtype": "F32", "shape": [250], "data_offsets": [0, 1000]}
    path = tmp_path / "a.safetensors"
    for count in (1, 9):
        text = json.dumps({str(key): each for key in range(count)}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(1000))
        if count == 1:
            assert Tensors.open(path).read("0").shape == (250,)
    with pytest.raises(InputError, match="is not one of safetensors"):
        Tensors.open(path)


def test_a_place_in_numpys_state_is_not_trusted(run: Path) -> None:
    """NumPy would read memory behind its key."""

    def change(found: dict[str, tuple[str, Any]]) -> None:
        state = json.loads(found["random.0.other"][1].tobytes())
        state["numpy"]["state"]["pos"] = 10**6
        text = json.dumps(state).encode()
        found["random.0.other"] = "U8", np.frombuffer(text, np.uint8)

    rewritten(run, change)
    with pytest.raises(InputError, match="not a state of random numbers"):
        resume(run)


def test_scalars_stay_scalars(run: Path) -> None:
    """A file of a run that was resumed is that of a run that was never interrupted."""
    trainer = resume(run)
    for state in trainer.optimizer.state_dict()["state"].values():
        assert state["step"].shape == ()
    specs = Tensors.open(next(Folder(run).of(4).glob("*.safetensors"))).specs
    assert specs["dense_optimizer.0.step"].shape == ()


def test_the_first_checkpoint_has_none_before_it(tmp_path: Path) -> None:
    """Advice to go on from one would be wrong."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
        with pytest.raises(InputError, match="there is no checkpoint before it"):
            loop.train(settings(tmp_path / "run"), FACTS, World())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
