"""Neo's Fig. 11: what sharding, FP16 tables, 16-bit messages and larger batches gain model A."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..study import Study, StudyRow, analytical, printed, unreferenced
from .neo import HALF, SEEDS, SPREAD, SPREADS, Step, drawn, step

WHERE = "section 8.4, Fig. 11"
LARGE = 256 * 1024

FOUR: dict[str, Any] = {"schemes": ("table", "row", "column", "data")}
OPTIONS: dict[str, dict[str, Any]] = {
    "baseline": {"table_precision": "fp32", "schemes": ("table", "row")},
    "optimized sharding": {"table_precision": "fp32", **FOUR},
    "FP16 tables": {"table_precision": "fp16", **FOUR},
    "16-bit all-to-alls": {"table_precision": "fp16", **HALF, **FOUR},
    "batch of 256 K": {"table_precision": "fp16", **HALF, **FOUR, "global_batch": LARGE},
}
"""Step of the figure -> options, each with those before."""
GAINS = {"optimized sharding": 20.0, "FP16 tables": 20.0, "16-bit all-to-alls": 30.0}
WHOLE = 87.0

WHY = {
    "baseline": "whole tables on one NPU each: the busiest delays the all-to-alls of all",
    "optimized sharding": "wide tables with many lookups are cut by columns, so that loads are "
    "even; more lookups are sent",
    "FP16 tables": "our planner has evened out the loads before, in the memory that FP32 tables "
    "leave; what remains is half of the bytes of lookups",
    "16-bit all-to-alls": "half of the bytes of the longest part of the step",
    "batch of 256 K": "all but the all-reduces grows with the batch",
}
TOTAL = "the product of the steps; the paper's 1.2 x 1.2 x 1.3 is 1.87 without the larger batch"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Rates and gains step by step, then the whole gain with other tables."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    found = _steps(backend)
    before = None
    for name, each in found.items():
        below = name == "baseline"
        reference = printed(0.7, f"{WHERE}: below 700 K", "<") if below else unreferenced()
        yield StudyRow(name, backend, reference, each.rate, "M samples/s", WHY[name])
        if before is not None:
            gain = 100 * (each.rate / before.rate - 1)
            reference = printed(GAINS[name], WHERE) if name in GAINS else unreferenced()
            yield StudyRow(f"{name}, gain", backend, reference, gain, "%", WHY[name])
        before = each
    whole = printed(WHOLE, WHERE)
    yield StudyRow("all together, gain", backend, whole, _gain(found), "%", TOTAL)
    for seed, spread in (*((seed, SPREAD) for seed in SEEDS[1:]), (0, SPREADS[0])):
        gain = _gain(_steps(backend, seed, spread))
        setup = f"all together, seed {seed}, spread {spread}"
        why = "other tables: the seed and the spread of rows and lookups are ours"
        yield StudyRow(setup, backend, unreferenced(), gain, "%", why)


def _steps(backend: str, seed: int = SEEDS[0], spread: float = SPREAD) -> dict[str, Step]:
    model = drawn("dlrm-neo-a", seed, spread)
    return {name: step(model, backend=backend, **given) for name, given in OPTIONS.items()}


def _gain(found: dict[str, Step]) -> float:
    rates = [each.rate for each in found.values()]
    return 100 * (rates[-1] / rates[0] - 1)


STUDY = Study(
    "Model A with drawn tables as in neo-throughput, 64 K samples, then 256 K. Baseline: FP32 "
    "tables and messages, whole tables placed by armillary plan, and those cut by rows that no NPU "
    "has room for. Optimized sharding may cut by columns and copy, as in the paper. Each step has "
    "those before.",
    rows,
)
