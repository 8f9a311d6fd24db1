"""`armillary explain --stragglers`: recorded steps against theory, a simulation of its own, and the
published analysis."""

from __future__ import annotations

import gzip
import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Armillary
from step_traces import Row, step, trace_of, write
from thorough import usually

from armillary.errors import InputError
from armillary.explain.step_trace import read
from armillary.explain.stragglers import stragglers

pytest.importorskip("polars")
SHARED = ROOT / "../shared/samples/stragglers"
USUAL = {
    "forward-compute": 0.06,
    "backward-compute": 0.13,
    "forward-message": 0.0005,
    "backward-message": 0.0005,
    "params-all-gather": 0.02,
    "grads-reduce-scatter": 0.05,
    "optimizer": 0.04,
}


def test_a_slow_rank_of_data_parallelism() -> None:
    """Passes of one of D ranks take f times as long: the step follows it, and equal passes take
    1 + (f - 1) / D as long as the others."""
    ranks, batches, factor = 4, 8, 1.5

    def took(kind: str, rank: int, stage: int, number: int) -> float:
        return USUAL[kind] * (factor if rank == 2 and "compute" in kind else 1.0)

    found = stragglers(trace_of(step(ranks, 1, batches, took)))
    passes = batches * 0.19
    rest = 0.02 + 0.05 + 0.04
    ideal = passes * (1 + (factor - 1) / ranks) + rest
    assert found.recorded_s == pytest.approx(passes * factor + rest)
    assert found.replayed_s == pytest.approx(found.recorded_s)
    assert found.ideal_s == pytest.approx(ideal)
    assert found.dp_ranks[0].name == "dp 2"
    assert found.dp_ranks[0].slowdown == pytest.approx(found.slowdown)
    assert found.ranks[0].name == "dp 2, stage 0"
    # Others are faster than the average and wait: they change nothing.
    assert all(part.slowdown == pytest.approx(1.0) for part in found.dp_ranks[1:])
    assert {part.name for part in found.kinds[:2]} == {"forward-compute", "backward-compute"}


@pytest.mark.parametrize("seed", range(usually(6, 200)))
def test_drawn_pipelines_equal_a_simulation_of_its_own(seed: int) -> None:
    """Recorded steps without waits for launches are replayed as they were. Without stragglers they
    take what the test's own simulation says for equal operations."""
    draw = random.Random(seed)
    ranks, stages, batches = draw.randint(1, 4), draw.randint(1, 5), draw.randint(1, 8)
    factors: dict[tuple[str, int, int, int, int], float] = {}
    steps = draw.randint(1, 3)
    rows: list[Row] = []
    for number in range(steps):

        def took(kind: str, rank: int, stage: int, n: int, number: int = number) -> float:
            key = (kind, rank, stage, n, number)
            if key not in factors:
                factors[key] = USUAL[kind] * draw.uniform(0.5, 2.0)
            return factors[key]

        rows += step(ranks, stages, batches, took, number)
    found = stragglers(trace_of(rows))
    assert found.replayed_s == pytest.approx(found.recorded_s, rel=1e-9)
    assert found.launch_slowdown == pytest.approx(1.0)
    equal = {}
    for kind in USUAL:
        # Each side of a transfer and each rank of a collective counts: equally many of each.
        values = [value for key, value in factors.items() if key[0] == kind]
        mean = kind in ("forward-compute", "backward-compute", "optimizer")
        equal[kind] = (statistics.mean if mean else statistics.median)(values) if values else 0.0
    ideal = step(ranks, stages, batches, lambda kind, *_: equal[kind])
    whole = max(row["start_ts"] + row["duration"] for row in ideal)
    assert found.ideal_s == pytest.approx(whole, rel=1e-6)
    assert found.slowdown == pytest.approx(found.replayed_s / whole, rel=1e-6)
    assert len(found.steps) == steps and len(found.ranks) == ranks * stages
    assert found.steps == sorted(found.steps, key=lambda each: -each.slowdown)


def test_waits_for_launches_are_apart() -> None:
    """A rank that loads data late is not slow in any operation."""
    rows = step(2, 2, 4, lambda kind, *_: USUAL[kind])
    plain = stragglers(trace_of(rows))
    late = [{**row, "start_ts": row["start_ts"] + 0.5 * (row["start_ts"] > 0)} for row in rows]
    found = stragglers(trace_of(late))
    assert plain.slowdown == pytest.approx(1.0) and found.slowdown == pytest.approx(1.0)
    assert found.recorded_s == pytest.approx(plain.recorded_s + 0.5)
    assert found.launch_slowdown == pytest.approx(found.recorded_s / plain.recorded_s)


def test_parts_of_the_model_on_each_stage_take_turns() -> None:
    """Two parts of the model on each of two stages: part 1 of stage 0 waits for part 0 of stage
    1."""
    rows: list[Row] = []

    def row(kind: str, stage: int, n: int, chunk: int, start: float, took: float) -> None:
        rows.append({"dp_rank": 0, "stage": stage, "step": 3, "optype": kind, "start_ts": start,
                     "duration": took, "seq_id": n, "mc": chunk})  # fmt: skip

    way = [("forward", 0, 0), ("forward", 1, 0), ("forward", 0, 1), ("forward", 1, 1)]
    way += [("backward", stage, chunk) for _, stage, chunk in reversed(way)]
    begin = 0.0
    for at, (kind, stage, chunk) in enumerate(way):
        row(f"{kind}-compute", stage, at, chunk, begin, 1.0)
        begin += 1.0
        # The turn from forward to backward stays on its stage.
        if at + 1 < len(way) and at != 3:
            row(f"{kind}-send", stage, at, -1, begin, 0.1)
            begin += 0.1
            row(f"{kind}-recv", way[at + 1][1], at, -1, 0.0, begin)
    found = stragglers(trace_of(rows))
    assert found.chunks == 2
    assert found.replayed_s == pytest.approx(found.recorded_s) == pytest.approx(8.6)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the sample is not at hand (../shared/samples)")
def test_the_published_trace_has_its_published_answers() -> None:
    """Slowdowns of ByteDance's analysis, by step, stage, rank of data parallelism and kind."""
    found = stragglers(SHARED / "trace-ST.parquet")
    theirs = json.loads(gzip.decompress((SHARED / "result-ST.json.gz").read_bytes()))
    assert found.slowdown == pytest.approx(theirs["blocking_slowdown"], rel=1e-5)
    assert found.launch_slowdown == pytest.approx(theirs["launch_slowdown"], rel=1e-5)
    steps = {str(each.number): each.slowdown for each in found.steps}
    assert steps == pytest.approx(theirs["blocking_step_slowdown"], rel=1e-5)
    stages = {each.name.removeprefix("stage "): each.slowdown for each in found.stages_by_slowdown}
    assert stages == pytest.approx(theirs["blocking_decompose_by_stage"], rel=1e-5)
    ranks = {each.name.removeprefix("dp "): each.slowdown for each in found.dp_ranks}
    assert ranks == pytest.approx(theirs["blocking_decompose_by_dp_rank"], rel=1e-5)
    kinds = {each.name.replace("message", "pp-comm"): each.slowdown for each in found.kinds}
    assert kinds == pytest.approx(theirs["blocking_decompose_by_optype"], rel=1e-5)
    assert next(iter(theirs["blocking_decompose_by_optype"])) == found.kinds[0].name
    last = json.loads((SHARED / "ms-ST.json").read_text())
    assert found.stages_by_slowdown[0].share == pytest.approx(last["Ms"], rel=1e-5)


def changed(change: Callable[[list[Row]], object]) -> list[Row]:
    rows = step(2, 2, 3, lambda kind, *_: USUAL[kind])
    change(rows)
    return rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[5].update(optype="lunch"), "unknown kind of operation: 'lunch'"),
        (lambda rows: rows[5].update(duration=-1.0), "duration: is -1.0"),
        (lambda rows: rows[5].update(duration=float("nan")), "duration: is nan"),
        (lambda rows: rows[5].update(start_ts=1e300), "start_ts: is 1e+300"),
        (lambda rows: rows[5].update(stage=-3), "stage: is -3"),
        (lambda rows: rows[5].update(dp_rank=2**21), "dp_rank: is 2097152"),
        (lambda rows: rows.append(rows[-1]), "is there twice"),
        (lambda rows: [rows.remove(row) for row in rows[:] if row["rank"] == 3], "of 4 ranks"),
        (lambda rows: rows.remove(next(r for r in rows if r["optype"] == "forward-compute")),
         "of backward-compute"),
        (lambda rows: rows.remove(next(r for r in rows if r["optype"] == "backward-recv")),
         "has 2 of backward-recv in a step (allowed: 3, one for each pass)"),
        (lambda rows: rows.remove(next(r for r in rows if r["optype"] == "grads-reduce-scatter")),
         "of grads-reduce-scatter"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_named(change: Callable[[list[Row]], object], said: str) -> None:
    rows = changed(change)
    with pytest.raises(InputError) as caught:
        stragglers(trace_of(rows))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.clear(), "has no column"),
        (lambda rows: [row.pop("seq_id") for row in rows], "has no column 'seq_id'"),
        (lambda rows: [row.update(step="one") for row in rows], "step is not a column of numbers"),
        (lambda rows: rows[5].update(seq_id=None), "row 6: seq_id is empty"),
    ],
)
def test_columns_that_are_not_there_are_named(
    change: Callable[[list[Row]], object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read(write(changed(change), tmp_path / "t.parquet"))
    assert said in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 100, b"step,stage\n1,2\n"])
def test_what_is_no_parquet_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(InputError, match="is not a trace of steps"):
        read(tmp_path / "t.parquet")


def test_the_verb(armillary: Armillary, tmp_path: Path) -> None:
    """Text, JSON and page; options of other explanations are refused."""

    def took(kind: str, rank: int, stage: int, number: int) -> float:
        return USUAL[kind] * (1.3 if stage == 1 and kind == "backward-compute" else 1.0)

    write([row for n in range(3) for row in step(2, 2, 4, took, n)], tmp_path / "t.parquet")
    run = armillary(
        *("explain", "t.parquet", "--stragglers", "--json", "s.json", "--report", "s.html"),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "The worst kind of operation is backward-compute" in " ".join(run.stdout.split())
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["schema"] == "armillary.stragglers/1"
    assert found["stages_by_slowdown"][0]["name"] == "stage 1"
    assert "Slowdown of each step" in (tmp_path / "s.html").read_text()
    for wrong in (("op",), ("-p", "dgx-h100"), ("--npus", "8"), ("--no-what-if",)):
        run = armillary("explain", "t.parquet", *wrong, "--stragglers", cwd=tmp_path)
        assert run.returncode == 2 and "has no meaning with --stragglers" in run.stderr
    run = armillary("explain", "missing.parquet", "--stragglers", cwd=tmp_path)
    assert run.returncode == 2 and "Traceback" not in run.stderr
