"""Checkpoints of other programs, and ours for other programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from conftest import ROOT
from peer_records import answers

from armillary.errors import InputError
from armillary.model import load_model
from armillary.model.dlrm import Dlrm, parse

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from armillary_train.checkpoint import importing
from armillary_train.checkpoint.content import Content
from armillary_train.checkpoint.export import DENSE, GRAPH, TABLES, export
from armillary_train.checkpoint.folder import last
from armillary_train.checkpoint.run_checkpoints import checkpoints
from armillary_train.ranks.world import World
from armillary_train.run import loop
from armillary_train.settings import CheckpointPrecision, Settings, TablePrecision
from armillary_train.tables.batch import SparseBatch
from armillary_train.tensor_files import Tensors

RECORDED = ROOT / "examples/checkpoints"
PREDICTED = json.loads((RECORDED / "predictions.json").read_text())


def facts_of(name: str) -> Dlrm:
    return parse(load_model(str(RECORDED / name)))


def restored(folder: Path, facts: Dlrm) -> loop.Trainer:
    settings = Settings(facts.name, checkpoint=str(folder), resume=True, threads=1)
    trainer = loop.Trainer(settings, facts, World())
    with checkpoints(trainer, loop.Outcome()):
        return trainer


def logits(trainer: loop.Trainer) -> torch.Tensor:
    indices = torch.tensor(PREDICTED["indices"])
    batch = SparseBatch(torch.ones_like(indices), indices.reshape(-1))
    with torch.no_grad():
        out: torch.Tensor = trainer.model(torch.tensor(PREDICTED["counts"]), batch)
    return out


@pytest.mark.parametrize(
    ("source", "model"),
    [("dlrm.pt", "dlrm.yml"), ("torchrec.pt", "dlrm.yml"), ("torchrec-dcn", "dcn.yml")],
)
def test_an_imported_model_predicts_what_it_did_there(
    source: str, model: str, tmp_path: Path
) -> None:
    facts = facts_of(model)
    assert importing.import_(str(RECORDED / source), facts, str(tmp_path)) == []
    found = logits(restored(tmp_path, facts))
    wanted = torch.tensor(PREDICTED[source.removesuffix(".pt")])
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_torchrec_predicts_the_same_with_these_weights() -> None:
    """As a live peer, which loads the recorded files."""
    recorded = answers("torchrec")["predictions"]
    for name, predicted in recorded.items():
        np.testing.assert_allclose(PREDICTED[name], predicted, rtol=1e-5)
    assert sorted(recorded) == ["torchrec", "torchrec-dcn"]


def test_training_goes_on_from_an_imported_model(tmp_path: Path) -> None:
    facts = facts_of("dlrm.yml")
    importing.import_(str(RECORDED / "dlrm.pt"), facts, str(tmp_path))
    settings = Settings(
        facts.name, checkpoint=str(tmp_path), resume=True, threads=1, global_batch=8, steps=3,
        eval_samples=50,
    )  # fmt: skip
    outcome = loop.train(settings, facts, World())
    assert outcome.checkpoints is not None
    assert (outcome.checkpoints["resumed"], outcome.steps) == (0, 3)
    assert Content(*last(tmp_path)).has("c0", "sum")


def test_what_does_not_fit_the_model_is_named(tmp_path: Path) -> None:
    facts = facts_of("dlrm.yml")
    wrong = replace(facts, tables=(replace(facts.tables[0], rows=9), *facts.tables[1:]))
    with pytest.raises(InputError, match=r"table 'c0': has the shape \[10, 4\]"):
        importing.import_(str(RECORDED / "dlrm.pt"), wrong, str(tmp_path))
    with pytest.raises(InputError, match="can't be read"):
        importing.import_(str(RECORDED / "dlrm.yml"), facts, str(tmp_path))
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="no tables under a known name"):
        importing.import_(str(tmp_path / "other.pt"), facts, str(tmp_path / "out"))


def trained(
    folder: Path,
    facts: Dlrm,
    precision: TablePrecision = "fp32",
    stored: CheckpointPrecision | None = None,
) -> Content:
    settings = Settings(
        facts.name, checkpoint=str(folder), threads=1, global_batch=64, steps=6, eval_samples=50,
        checkpoint_every=2, table_precision=precision, checkpoint_precision=stored,
    )  # fmt: skip
    loop.train(settings, facts, World())
    return Content(*last(folder))


@pytest.mark.parametrize("model", ["dlrm.yml", "dcn.yml"])
def test_an_export_is_read_by_other_libraries(model: str, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    facts = facts_of(model)
    content = trained(tmp_path / "a", facts, "bf16")
    names = export(content, str(tmp_path / "out"), lambda _: None)
    assert sorted(names) == sorted(path.name for path in (tmp_path / "out").iterdir())
    tables = safetensors.load_file(tmp_path / "out" / TABLES)
    trainer = loop.Trainer(Settings(facts.name, table_precision="bf16", threads=1), facts, World())
    trainer.model.parts.load_state_dict(
        {
            key: value
            for key, value in safetensors.load_file(tmp_path / "out" / DENSE).items()
            if not key.startswith("optimizer.")
        }
    )
    state = {**tables, "step": torch.tensor(6)}
    trainer.embeddings.load_state_dict(state)
    wanted = logits(trainer)
    graph = onnx.load(tmp_path / "out" / GRAPH)
    indices = torch.tensor(PREDICTED["indices"])
    with torch.no_grad():
        pooled = trainer.embeddings(SparseBatch(torch.ones_like(indices), indices.reshape(-1)))
    given = {"dense": np.array(PREDICTED["counts"], np.float32), "pooled": pooled.numpy()}
    (found,) = ReferenceEvaluator(graph).run(None, given)
    np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("precision", "most"), [("fp16", 2.0**-11), ("int8", 1 / 255 / 2 + 1e-6)])
def test_rounded_checkpoints_are_within_half_a_step(
    precision: CheckpointPrecision, most: float, tmp_path: Path
) -> None:
    facts = facts_of("dlrm.yml")
    whole = trained(tmp_path / "a", facts)
    rounded = trained(tmp_path / "b", facts, stored=precision)
    for table in facts.tables:
        rows, columns = range(table.rows), range(table.dim)
        one, other = (each.rows(table.name, "weight", rows, columns) for each in (whole, rounded))
        span = np.ptp(one, 1) if precision == "int8" else np.abs(one).max(1)
        assert (np.abs(one - other).max(1) <= most * span).all()
        one, other = (each.rows(table.name, "sum", rows, columns) for each in (whole, rounded))
        assert (one == other).all()
    assert (one == other).all() and rounded.last.precision == precision


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    content = trained(tmp_path / "a", facts_of("dlrm.yml"))
    path = content.folder.of(content.last.step) / content.last.files[0].name
    theirs, ours = safetensors.load_file(path), Tensors.open(path)
    assert theirs.keys() == ours.specs.keys()
    assert all((ours.read(key) == value).all() for key, value in theirs.items())
    safetensors.save_file(theirs, tmp_path / "theirs.safetensors")
    again = Tensors.open(tmp_path / "theirs.safetensors")
    assert all((again.read(key) == value).all() for key, value in theirs.items())
