"""A run in one process: it learns, whatever the parts of a batch, and stops when it can't."""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from armillary.errors import InputError, TrainingError
from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary.model.sharding_plan_file import write_plan
from armillary_train.run.logs import LINES, Logs
from armillary_train.settings import (
    DenseOptimizerName,
    OptimizerName,
    Precision,
    Settings,
    TablePrecision,
    factor,
)

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from armillary_train.data import open_data
from armillary_train.ranks.world import World
from armillary_train.run import loop, profiler

SMALL = Settings(
    "dlrm-small",
    global_batch=512,
    steps=120,
    learning_rate=0.05,
    dense_learning_rate=0.003,
    threads=1,
)
FACTS = parse(load_model("dlrm-small"))


def run(
    settings: Settings,
    progress: loop.Progress | None = None,
    write: loop.Write | None = None,
) -> loop.Outcome:
    return loop.train(settings, FACTS, World(), progress=progress, write=write)


def test_a_run_learns_and_shows_it(tmp_path: Path) -> None:
    shown: list[tuple[float, str]] = []
    with Logs(tmp_path) as logs:
        found = run(
            replace(SMALL, eval_every=50, eval_samples=5000),
            progress=lambda done, text: shown.append((done, text)),
            write=logs.write,
        )
    assert (found.steps, found.samples) == (120, 120 * 512)
    assert [each["trained"] for each in found.evaluations] == [50 * 512, 100 * 512, 120 * 512]
    last = found.evaluations[-1]
    assert found.bound is not None
    assert found.bound["auc"] > last["auc"] > 0.72
    assert found.bound["ne"] < last["ne"] < 0.93
    assert last["samples"] == found.bound["samples"] == 5000
    assert shown[-1][0] == 1.0 and "step 120" in shown[-1][1]
    lines = [json.loads(line) for line in (tmp_path / LINES).read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "evaluation"] == [50, 100, 120]
    trained = [line for line in lines if line["kind"] == "train"]
    assert sum(1 for _ in trained) == 120 and trained[-1]["loss"] < trained[0]["loss"]
    assert len(records(tmp_path)) == 1 + len(lines)


def records(folder: Path) -> list[bytes]:
    """The records of the file of events, whose lengths must fill it."""
    (path,) = folder.glob("events.out.tfevents.*")
    content, found = path.read_bytes(), []
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        found.append(content[12 : 12 + size])
        content = content[16 + size :]
    return found


def test_events_are_those_of_tensorboard(tmp_path: Path) -> None:
    """Bytes of a record whose checksums and fields were worked out by hand from the formats."""
    with Logs(tmp_path) as logs:
        logs.write("train", 300, {"loss": 0.5, "none": None})
    head, event = records(tmp_path)
    assert head.endswith(b"\x1a\x0dbrain.Event:2")
    assert event[9:] == b"\x10\xac\x02" + b"\x2a\x13\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x00\x3f"
    (path,) = tmp_path.glob("events.out.tfevents.*")
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C (RFC 3720, B.4)
    content = path.read_bytes()
    assert content[8:12] == masked(content[:8])


@pytest.mark.parametrize("name", ["_lines", "_events"])
def test_a_full_disk_under_logs_is_named(name: str, tmp_path: Path) -> None:
    said = f"{tmp_path}: --log-dir: .*No space left"
    with pytest.raises(InputError, match=said), Logs(tmp_path) as logs:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, getattr(logs, name).fileno())
        os.close(full)
        logs.write("train", 1, {"loss": 0.5})


def test_a_profile_that_is_not_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.profiler.profile.export_chrome_trace", lambda *_: None)
    path = tmp_path / "kineto-rank0.json"
    path.write_text("{}")
    said = f"{path}: --trace: .*PyTorch wrote no file"
    with pytest.raises(InputError, match=said), profiler._timed(path):
        pass


def crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def test_the_parts_of_a_batch_change_nothing() -> None:
    """Rounding aside: each part adds its gradients to those before it."""
    whole = run(replace(SMALL, steps=10, eval_samples=2000))
    parts = run(replace(SMALL, steps=10, eval_samples=2000, accumulate=3))
    for name in ("loss", "auc"):
        assert parts.evaluations[0][name] == pytest.approx(whole.evaluations[0][name], rel=1e-4)


def test_the_same_run_gives_the_same_bits() -> None:
    one, other = (run(replace(SMALL, steps=10, eval_samples=2000)) for _ in range(2))
    assert one.evaluations == other.evaluations
    assert run(replace(SMALL, steps=10, eval_samples=2000, seed=1)).evaluations != one.evaluations


@pytest.mark.parametrize(
    ("optimizer", "precision"),
    [("sgd", "fp16"), ("adagrad", "bf16"), ("adam", "fp32"), ("lamb", "fp16")],
)
def test_optimizers_and_precisions_of_tables_run(
    optimizer: OptimizerName, precision: TablePrecision
) -> None:
    found = run(
        replace(SMALL, steps=8, eval_samples=600, optimizer=optimizer, table_precision=precision)
    )
    assert math.isfinite(found.evaluations[0]["loss"])


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam", "adamw"])
def test_every_optimizer_of_the_mlps_runs(optimizer: DenseOptimizerName) -> None:
    found = run(replace(SMALL, steps=8, eval_samples=600, dense_optimizer=optimizer))
    assert found.evaluations[0]["loss"] < 0.75


def test_a_loss_that_is_not_a_number_ends_the_run() -> None:
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf)"):
        run(replace(SMALL, dense_optimizer="sgd", dense_learning_rate=1e30))


def test_an_evaluation_that_is_not_a_number_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of the only step is that of the initial weights."""
    given = replace(SMALL, steps=1, dense_optimizer="sgd", dense_learning_rate=1e38)
    for most in (loop.EXACT, 10):
        monkeypatch.setattr(loop, "EXACT", most)
        with pytest.raises(TrainingError, match=r"evaluation after step 1 is (nan|inf)"):
            run(replace(given, eval_samples=600))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_rows_that_overflow_end_the_run(precision: Precision) -> None:
    """A product of two rows is not finite, and the ReLU of the MLP behind it hides that."""
    if precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no arithmetic in bfloat16")
    given = replace(SMALL, precision=precision, learning_rate=1e30, eval_samples=600)
    with pytest.raises(TrainingError, match="a gradient of the MLPs is not finite"):
        run(replace(given, steps=5))
    with pytest.raises(TrainingError, match=r"evaluation after step 1 is nan"):
        run(replace(given, steps=1))


def test_logs_are_read_to_their_end_or_over_and_over(tmp_path: Path) -> None:
    facts = parse(load_model("dlrm-criteo-kaggle"))
    tables = tuple(replace(table, rows=50) for table in facts.tables)
    path = tmp_path / "train.txt"
    made = np.random.default_rng(0)
    lines = [
        "\t".join(
            [str(made.integers(2)), *(["3"] * 13), *(f"{made.integers(50):x}" for _ in range(26))]
        )
        for _ in range(70)
    ]
    path.write_text("\n".join(lines) + "\n")
    small = replace(facts, tables=tables)
    settings = Settings("dlrm-criteo-kaggle", data=str(path), global_batch=16, threads=1)
    once = loop.train(settings, small, World())
    assert (once.steps, once.samples, once.evaluations[0]["samples"]) == (4, 60, 10)
    assert once.bound is None
    few = loop.train(replace(settings, global_batch=8, eval_samples=9), small, World())
    assert few.evaluations[0]["samples"] == 9
    twice = loop.train(replace(settings, steps=7), small, World())
    assert (twice.steps, twice.samples) == (7, 60 + 48)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"global_batch": 0}, "--global-batch: 0 is out of range"),
        ({"steps": 3, "samples": 4}, "both are given"),
        ({"optimizer": "adamm"}, "unknown optimizer: 'adamm'"),
        ({"learning_rate": math.nan}, "--lr: nan is out of range"),
        ({"dense_learning_rate": 0.0}, "--dense-lr"),
        ({"warmup": -1}, "--warmup"),
        ({"seed": -1}, "--seed"),
        ({"positive_rate": 1.0}, "--positive-rate"),
        ({"positive_rate": 0.5, "data": "x"}, "labels of their own"),
        ({"eval_every": 0}, "--eval: 0 is out of range"),
        ({"cache_policy": "lfu"}, "--cache-policy: is for tables with caches"),
        ({"ranks": 4, "global_batch": 3}, "at least one sample for each process"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], said: str) -> None:
    base: dict[str, Any] = {"model": "dlrm-small", **given}
    with pytest.raises(InputError, match=said):
        Settings(**base).check()


def test_learning_rates_warm_up_and_decay() -> None:
    rates = [factor(step, 10, 4, "linear") for step in range(10)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[5:] == pytest.approx([5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    assert factor(7, 10, 4, "quadratic") == pytest.approx(0.25)
    assert factor(7, 10, 4, "cosine") == pytest.approx(0.5)
    assert factor(7, 10, 4, "none") == factor(7, None, 4, "linear") == 1.0


def test_data_must_fit_the_model(tmp_path: Path) -> None:
    (tmp_path / "day_0").touch()
    (tmp_path / "day_1").touch()
    logs = replace(SMALL, data=str(tmp_path))
    with pytest.raises(InputError, match="26: the categories"):
        open_data(logs, FACTS)
    with pytest.raises(InputError, match="a line has one id for each"):
        open_data(logs, replace(FACTS, tables=(replace(FACTS.tables[0], pooling=2),)))
    large = replace(FACTS, tables=(replace(FACTS.tables[0], rows=2**40),))
    with pytest.raises(InputError, match="too large for synthetic data"):
        open_data(SMALL, large)


def test_steps_that_cannot_be_recorded_are_refused_before_the_first(tmp_path: Path) -> None:
    """The recorded steps are followed by two more, with operators and with shapes."""
    given = replace(SMALL, trace=str(tmp_path), trace_steps="3:5", eval_samples=100)
    trained = loop.Outcome()
    more = "at least 7 steps"
    for steps, help_ in ((6, rf"\(allowed: {more}, or A:B with B up to 4\)"), (2, rf"{more}\)")):
        with pytest.raises(InputError, match=help_):
            run(replace(given, steps=steps), progress=lambda *_: pytest.fail("a step"))
    trained.steps = 4
    with pytest.raises(InputError, match=r"goes on from step 4 .*A from 5 on"):
        next(profiler.steps(iter(()), given, World(), trained, None))


def test_tables_that_dont_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMILLARY_MEMORY", "10 kB")
    with pytest.raises(InputError, match="their optimizer need"):
        run(SMALL)


def test_a_cache_takes_no_more_than_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMILLARY_MEMORY", "1 MB")
    given = replace(SMALL, steps=1, eval_samples=100, cache="100 TiB")
    with pytest.raises(InputError, match="their optimizer and their caches need"):
        run(given)
    monkeypatch.setenv("ARMILLARY_MEMORY", "20 MB")
    run(given)


def test_precisions_need_their_hardware() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine may have tf32")
    with pytest.raises(InputError, match="no units for tf32"):
        run(replace(SMALL, precision="tf32"))


@pytest.mark.parametrize(
    ("ranks", "drop", "said"),
    [
        (2, False, "ranks: the sharding plan is for 2 ranks; the run has 1"),
        (1, True, "is not in the sharding plan"),
    ],
)
def test_a_plan_that_does_not_fit_is_named(
    ranks: int, drop: bool, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.yml"
    tables = tuple(
        TablePlan(table.name, table.rows, table.dim, "row", tuple(range(ranks)))
        for table in FACTS.tables[drop:]
    )
    write_plan(ShardingPlan("small", ranks, ranks, tables), path)
    with pytest.raises(InputError) as found:
        run(replace(SMALL, plan=str(path)))
    assert all(each.file == str(path) for each in found.value.problems)
    assert said in str(found.value)


def test_a_plan_may_have_another_order(tmp_path: Path) -> None:
    path = tmp_path / "plan.yml"
    tables = tuple(
        TablePlan(table.name, table.rows, table.dim, "row", (0,))
        for table in reversed(FACTS.tables)
    )
    write_plan(ShardingPlan("small", 1, 1, tables), path)
    few = replace(SMALL, steps=2, eval_samples=500)
    assert run(replace(few, plan=str(path))).evaluations == run(few).evaluations


@pytest.mark.parametrize("name", ["checkpoint", "table_dir", "trace"])
def test_a_path_without_a_name_is_refused(name: str) -> None:
    """As a shell passes it for a variable that is not set: not the current folder."""
    given: dict[str, Any] = {name: ""}
    settings = Settings("dlrm-small", cache="1 GiB", **given)
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')}: no path"):
        settings.check()
