"""The measured runs of ResNet-50, DLRM and DCNv2: consistent, and predicted within the bounds the
study states."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from armillary.model.dlrm import parse
from armillary.model.files import load_model
from armillary_lab.measured.vision import visions
from armillary_lab.predict.vision import memory_balanced, predict
from armillary_lab.score import vision

RUNS = visions()


def test_runs_are_those_of_three_groups_and_told_apart() -> None:
    groups = [run.group for run in RUNS]
    assert {name: groups.count(name) for name in groups} == {
        "nvidia_dle_dcnv2": 2,
        "nvidia_dle_dlrm": 18,
        "nvidia_dle_resnet50": 12,
    }
    assert len({run.name for run in RUNS}) == len(RUNS)
    assert {run.precision for run in RUNS if run.generation == "A100"} == {"mixed", "tf32"}
    assert {run.precision for run in RUNS if run.generation == "V100"} == {"mixed", "fp32"}


@pytest.mark.parametrize(
    ("name", "parameters"),
    # 4.2B, 22.8B and 113B as NVIDIA prints them
    [
        ("dlrm-criteo-t15", 4.2e9),
        ("dlrm-criteo-t3", 22.8e9),
        ("dlrm-criteo-t0", 113e9),
        ("dcnv2-criteo-t3", 22.8e9),
    ],
)
def test_models_have_the_published_size(name: str, parameters: float) -> None:
    assert parse(load_model(name)).parameters == pytest.approx(parameters, rel=0.01)


def test_predictions_hold_what_the_study_says() -> None:
    rows = vision.rows(["analytical"])
    errors = sorted(abs(row.ours / row.reference.value - 1) for row in rows if row.reference.value)
    assert len(errors) == 32
    assert rows[0].setup.endswith("(32): median error")
    assert rows[0].ours == pytest.approx(100 * statistics.median(errors), abs=0.01)
    assert statistics.median(errors) <= 0.08
    assert errors[int(0.9 * len(errors))] <= 0.15
    tables = [row for row in rows if row.setup.startswith(("dlrm", "dcnv2"))]
    assert len(tables) == 20
    assert all(abs(row.ours / (row.reference.value or 0) - 1) <= 0.2 for row in tables)
    assert all(row.why for row in rows)


def test_tables_are_cut_and_dealt_as_distributed_embeddings_does() -> None:
    """Tables of 29, 37, 5.2, 24 and 17 G elements in 8, 8, 2, 8 and 4 columns of at most 5 G; 51
    shards, six or seven for each GPU, in an order that turns round after each of them."""
    tables = parse(load_model("dlrm-criteo-t0")).tables
    plan = memory_balanced(tables, 8)
    cut = {each.name: len(each.ranks) for each in plan.tables if each.scheme == "column"}
    assert cut == {"t0": 8, "t11": 8, "t13": 2, "t14": 8, "t25": 4}
    shards = [shard for table in plan.tables for shard in table.shards]
    assert all(len(shard.rows) * len(shard.columns) <= 5e9 for shard in shards)
    held = [
        sum(len(s.rows) * len(s.columns) for s in shards if s.rank == rank) for rank in range(8)
    ]
    assert sum(held) == sum(table.rows * table.dim for table in tables)
    assert 4 * max(held) < 80e9
    counts = [sum(shard.rank == rank for shard in shards) for rank in range(8)]
    assert counts == [7, 7, 7, 6, 6, 6, 6, 6]
    # The largest table has one shard on every GPU; the next shards are dealt backwards.
    assert plan.tables[11].ranks == tuple(range(8))
    assert plan.tables[25].ranks == (4, 5, 6, 7)


def test_runs_of_one_gpu_have_no_network() -> None:
    """The published tables have such runs too; a batch of all samples on one GPU takes longer than
    an eighth of it."""
    run = next(run for run in RUNS if run.size == "large" and run.framework == "TensorFlow2")
    one = replace(run, gpus=1, batch=65536, size="small")
    assert predict(one) < predict(run)
