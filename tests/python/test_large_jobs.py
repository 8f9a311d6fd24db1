"""Jobs of the size that the simulator is for, through everything that reads a result: counts beyond
64 bits and all.

Llama 3 405B with Meta's batch, DeepSeek-V3 with its own, and a model of 100 T parameters on
1,000,000 NPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from thorough import some, usually

import armillary as arm
from armillary.explain import explain
from armillary.report import reading

pytestmark = pytest.mark.usefixtures("workers_in_copies")

HUGE = """
family: transformer
layers: 250
hidden: 182272
heads: 712
ffn: 729088
vocabulary: 128256
sequence: 2048
"""


@dataclass(frozen=True)
class Job:
    """A model, how it is parallelised, and on how many NPUs of dgx-h100-16n."""

    model: str
    npus: int
    options: dict[str, Any]
    least: int
    """Floating-point operations of a step, at least."""


JOBS = {
    "llama-3-405b": Job(
        "llama-3-405b",
        16_384,
        {"tp": 8, "pp": 16, "dp": 128, "global_batch": 2048, "zero": 1, "sp": True},
        2**65,
    ),
    "deepseek-v3": Job(
        "deepseek-v3",
        2_048,
        {
            "pp": 16,
            "ep": 64,
            "dp": 128,
            "global_batch": 15_360,
            "micro_batch": 4,
            "zero": 1,
            "framework_set": {"partition": "cost"},
        },
        2**63,
    ),
    "100T": Job(
        "huge.yml",
        1_000_000,
        {"tp": 8, "pp": 5, "dp": 25_000, "global_batch": 125_000, "zero": 3},
        2**76,
    ),
}


@dataclass(frozen=True)
class Run:
    """What came of a job."""

    job: Job
    folder: Path
    result: arm.Result
    file: Path


@pytest.fixture(scope="module", params=some(JOBS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Generated, written, read back, simulated, its report written."""
    job, folder = JOBS[request.param], tmp_path_factory.mktemp("scale")
    (folder / "huge.yml").write_text(HUGE, encoding="utf-8")
    model = str(folder / job.model) if job.model.endswith(".yml") else job.model
    arm.workload.build(model, **job.options).write(folder / "w")
    platform = arm.Platform.load("dgx-h100-16n", {"npus": job.npus})
    result = arm.simulate(arm.load(folder / "w", platform), platform, detail=True)
    result.to_json(folder / "r.json")
    return Run(job, folder, result, folder / "r.json")


def test_operations_are_whole_numbers_everywhere(run: Run) -> None:
    summary = json.loads(run.file.read_text(encoding="utf-8"))["config"]["workload"]["summary"]
    for key in ("flops", "hardware_flops"):
        assert isinstance(summary[key], int)
        assert summary[key] > run.job.least
    assert (
        summary
        == json.loads((run.folder / "w" / "workload.json").read_text(encoding="utf-8"))["summary"]
    )
    assert reading.read(run.file)["config"]["workload"]["summary"]["flops"] == summary["flops"]


def test_tables_hold_every_count(run: Run) -> None:
    assert run.result.operations()["bytes"].max() == max(
        row["bytes"] for row in run.result.report["operations"]
    )
    assert run.result.dimensions()["bytes"].to_list() == [
        row["bytes"] for row in run.result.report["dimensions"]
    ]
    assert run.result.breakdown()["count"].sum() == run.job.npus


def test_pages_and_notebooks_are_drawn(run: Run) -> None:
    """The changes that a page tries are a simulation each: those of one job, with counts beyond
    64 bits, take as long as all else here."""
    assert "<html" in run.result.html(what_if=usually(False, run.job.model == "llama-3-405b"))
    assert run.result._repr_html_()


def test_a_report_is_explained_and_compared(run: Run) -> None:
    report = reading.read(run.file)
    assert explain(report)
    assert arm.compare(report, report)


def test_no_second_of_the_step_is_empty(run: Run) -> None:
    detail = run.result.report["detail"]
    assert detail is not None
    series = [each["ns"] for each in detail["critical_path"]["over_time"]]
    for number, of_bin in enumerate(zip(*series, strict=True)):
        width = min(detail["bin_ns"], run.result.step_time_ns - number * detail["bin_ns"])
        assert sum(of_bin) == pytest.approx(width)


def test_stages_have_lanes_and_layers_the_numbers_of_the_model(run: Run) -> None:
    report, pp = run.result.report, run.job.options["pp"]
    detail = report["detail"]
    assert detail is not None
    assert [lane["label"] for lane in detail["gantt"]] == [f"stage {stage}" for stage in range(pp)]
    kinds = {bar["kind"] for lane in detail["gantt"] for bar in lane["bars"]}
    assert {"forward", "backward", "optimizer"} <= kinds
    assert sum(len(lane["bars"]) for lane in detail["gantt"]) <= 8_000
    layers = {row["layer"] for row in detail["layers"] if row["layer"].startswith("layer")}
    assert layers == {f"layer{number}" for number in range(len(layers))}
    assert len(layers) in (61, 126, 250)


def test_operations_are_ranked_by_what_they_cost(run: Run) -> None:
    rows = run.result.report["operations"]
    costs = [row["cost_ns"] for row in rows]
    assert costs == sorted(costs, reverse=True)
    busy = sum(
        (run.result.step_time_ns - each["idle_ns"]) * each["count"]
        for each in run.result.report["classes"]
    )
    assert 0.9 * busy <= sum(costs) <= busy * (1 + 1e-9)
    assert rows[0]["kind"] != "recv"


def test_a_sweep_holds_what_a_step_computes(run: Run) -> None:
    options = {key: value for key, value in run.job.options.items() if key != "zero"}
    study = {
        "name": "scale",
        "workload": {"model": run.job.model, "options": options},
        "platform": {"file": "dgx-h100-16n", "npus": run.job.npus},
        "parameters": {"workload.zero": [run.job.options["zero"]]},
    }
    path = run.folder / "scale.yml"
    path.write_text(json.dumps(study), encoding="utf-8")
    arm.sweep(path, run.folder / "swept")
    table = pl.read_parquet(run.folder / "swept" / "table.parquet")
    summary = run.result.report["config"]["workload"]["summary"]
    assert [int(value) for value in table["model_flops"]] == [summary["flops"]]
    assert table["error"].is_null().all()
