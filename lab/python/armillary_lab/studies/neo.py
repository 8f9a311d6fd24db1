"""Common parts of the studies of Neo and ZionEX: models with tables drawn at random, their plans,
and their steps.

Model. Table 3 prints of a model's tables how many there are, their widths, all their parameters and
the mean of their lookups. Here widths are those of the model file. Numbers of rows and of lookups
are drawn from log-normal distributions with the printed sum and mean; `spread` is the standard
deviation of their logarithms. A step's time is that of a step in the middle of many: of three steps
in a row without what one takes, by two."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from armillary.api import simulate
from armillary.estimate.roofline import StepParts
from armillary.model import Model, load_model
from armillary.model.dlrm import Dlrm, parse
from armillary.plan import plan
from armillary.plan.roofline import roofline
from armillary.platform import Platform
from armillary.schema import Report
from armillary.workload.dlrm import dlrm

RANKS = 128
SEEDS = (0, 1, 2)
"""Seeds of the tables that are drawn."""
SPREADS = (0.5, 1.0, 1.5)
"""Standard deviations of logarithms: a table in six has more than 1.6, 2.7 and 4.5 times the
median."""
SPREAD = 1.0
FEWEST_ROWS = 1000
ROOM = 36 * 10**9
"""Bytes of an NPU for the planner: section 8.4 reserves some for the framework and NCCL, without a
number."""
ANY = 10**15
"""Room where tables have fewer rows so that they fit, as the paper's on few nodes (section 8.3)."""
CACHE = 30 * 10**9
"""Bytes of an NPU's cache of model F's tables on the host."""
PASSES = 3

HALF = {"messages": "forward=fp16,backward=fp16,reduce-scatter=fp16"}
"""Pooled rows as FP16 forward and BF16 backward (section 8.4)."""


@dataclass(frozen=True)
class Step:
    """A step in the middle of many."""

    samples: int
    """Samples of all ranks."""
    time: float
    """Seconds."""
    least: StepParts
    """The roofline's parts, seconds."""
    imbalance: float
    """Greatest load of a rank over the mean, as planned."""
    report: Report
    """Report of three steps."""

    def serialized(self, kind: str) -> float:
        """Milliseconds that a rank's collectives of a kind take in a step, one after the other."""
        total = sum(each["total_ns"] for each in self.report["operations"] if each["kind"] == kind)
        return total / self.report["ranks"] / PASSES / 1e6

    @property
    def exposed(self) -> float:
        """Milliseconds of a step in which a rank communicates and does not compute."""
        classes = self.report["classes"]
        total = sum(each["exposed_comm_ns"] * each["count"] for each in classes)
        return total / self.report["ranks"] / PASSES / 1e6

    @property
    def rate(self) -> float:
        """Million samples per second."""
        return self.samples / self.time / 1e6

    @property
    def roofline(self) -> float:
        """Million samples per second at most."""
        return self.samples / self.least.total / 1e6

    @property
    def reached(self) -> float:
        """Percent of the roofline."""
        return 100 * self.least.total / self.time


def drawn(name: str, seed: int = 0, spread: float = SPREAD) -> Model:
    """A model whose tables differ in rows and lookups. Rows of a model with a few large tables stay
    as its file has them."""
    model = load_model(name)
    tables = parse(model).tables
    random = Random(seed)
    sizes = [random.lognormvariate(0, spread) for _ in tables]
    pooled = [random.lognormvariate(0, spread) for _ in tables]
    lookups = _rounded(pooled, sum(table.pooling for table in tables))
    given = len({table.rows for table in tables}) > 1
    parameters = sum(table.rows * table.dim for table in tables)
    each = parameters / sum(size * table.dim for size, table in zip(sizes, tables, strict=True))
    entries = [
        {
            "name": table.name,
            "rows": table.rows if given else max(FEWEST_ROWS, round(size * each)),
            "dim": table.dim,
            "pooling": count,
        }
        for table, size, count in zip(tables, sizes, lookups, strict=True)
    ]
    return replace(model, fields={**model.fields, "tables": entries})


def _rounded(weights: list[float], total: int) -> list[int]:
    """Whole numbers from 1 that add up to `total`, in proportion to `weights`."""
    scale = total / sum(weights)
    counts = [max(1, math.floor(weight * scale)) for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: weights[at] * scale - counts[at])
    while sum(counts) != total:
        up = sum(counts) < total
        for at in reversed(order) if up else order:
            if sum(counts) == total:
                break
            if up or counts[at] > 1:
                counts[at] += 1 if up else -1
    return counts


def facts(name: str) -> Dlrm:
    """The model as its file has it."""
    return parse(load_model(name))


def model_a(model: Model | None = None, **options: object) -> Step:
    """A step of model A as Table 3 has it: 512 samples an NPU, FP16 tables, pooled rows of 16
    bits."""
    return step(model or drawn("dlrm-neo-a"), **{**HALF, **options})  # type: ignore[arg-type]


def model_f(model: Model | None = None, **options: object) -> Step:
    """A step of model F: all tables cut by rows, on the hosts behind caches (section 8.5)."""
    given = {"sharding": "row", "tier": "host", "cache": CACHE, **options}
    return step(model or drawn("dlrm-neo-f"), **given)  # type: ignore[arg-type]


def model_i(model: Model | None = None, **options: object) -> Step:
    """A step of model I: 2,048 samples an NPU."""
    return step(model or drawn("dlrm-neo-i"), **options)  # type: ignore[arg-type]


def step(
    model: Model,
    platform: str | Platform = "zionex",
    ranks: int = RANKS,
    *,
    schemes: tuple[str, ...] | None = None,
    capacity: int = ROOM,
    backend: str | None = None,
    **options: object,
) -> Step:
    """A step with the plan that the planner finds with these `schemes`, or without one where
    `sharding` is among the options."""
    target = platform if isinstance(platform, Platform) else Platform.load(platform, npus=ranks)
    given: dict[str, Any] = {"elementwise": True, "host_inputs": True, **options}
    if "sharding" in given:
        return _step(model, target, backend, 1.0, given)
    with _planned(model, target, schemes, capacity, backend, given) as (imbalance, file):
        return _step(model, target, backend, imbalance, {**given, "plan": file})


@contextmanager
def _planned(
    model: Model,
    platform: Platform,
    schemes: tuple[str, ...] | None,
    capacity: int,
    backend: str | None,
    options: dict[str, Any],
) -> Iterator[tuple[float, str]]:
    """A plan that is chosen by the same steps that are reported."""
    given = {**options, "passes": PASSES}
    found = plan(model, platform, schemes=schemes, capacity=capacity, backend=backend, **given)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "plan.yml")
        found.write(file)
        yield found.imbalance, file


def _step(
    model: Model,
    platform: Platform,
    backend: str | None,
    imbalance: float,
    options: dict[str, Any],
) -> Step:
    count = platform.npus
    runs = {
        passes: simulate(dlrm(model, dp=count, passes=passes, **options), platform, backend=backend)
        for passes in (1, PASSES)
    }
    time = (runs[PASSES].step_time_ns - runs[1].step_time_ns) / (PASSES - 1) / 1e9
    local = options.get("local_batch") or facts(model.name).local_batch
    batch = options.get("global_batch") or count * local
    least = roofline(model, platform, dp=count, **options)
    return Step(batch, time, least, imbalance, runs[PASSES].report)
