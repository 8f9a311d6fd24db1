"""Times of batches of a recommendation model: its forward pass, simulated at some batch sizes.

Here: which NPUs take part, where tables are, the time of a batch and of its parts. Not here: the
forward pass (`workload/dlrm_inference.py`), queries that wait for a batch (`queries.py`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from .. import _core
from ..errors import InputError, Problem
from ..model.files import Model
from ..platform import Platform
from ..workload.dlrm_inference import PARTS, forward

HOSTS = (
    "the time of servers and hosts for each batch is not counted, and a batch starts after the one "
    "before has ended"
)
MOST_SAMPLES = 2**22
"""Samples of a batch, at most."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Times of batches on one replica, seconds, straight lines between the sampled sizes."""

    npus: int
    """NPUs of a replica."""
    samples: tuple[int, ...]
    """Sizes of batches that were simulated."""
    seconds: tuple[float, ...]
    parts: tuple[Mapping[str, float], ...]
    """Seconds from the end of the part before, for each size; they add up to the whole."""
    tables: str
    """How many tables are split in which way."""
    memory: int
    """Bytes of tables on the fullest NPU."""
    warnings: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """Samples of the largest batch."""
        return self.samples[-1]

    def time(self, samples: int) -> float:
        """Seconds of a batch of 1 to `most` samples."""
        at = bisect_left(self.samples, samples)
        if at == 0:
            return self.seconds[0]
        low, high = self.samples[at - 1], self.samples[at]
        share = (samples - low) / (high - low)
        return self.seconds[at - 1] + share * (self.seconds[at] - self.seconds[at - 1])

    def part(self, name: str, samples: int) -> float:
        """Seconds of a part of such a batch."""
        at = bisect_left(self.samples, samples)
        if at == 0:
            return self.parts[0].get(name, 0.0)
        low, high = self.samples[at - 1], self.samples[at]
        share = (samples - low) / (high - low)
        before, after = (self.parts[each].get(name, 0.0) for each in (at - 1, at))
        return before + share * (after - before)


def batches(
    model: str | Model,
    platform: Platform,
    most: int,
    *,
    replicas: int = 1,
    backend: str | None = None,
    **options: object,
) -> Batches:
    """Times of batches of up to `most` samples on each of `replicas` parts of a platform.

    A batch is divided among the NPUs of a replica. `options` are those of the workload `dlrm`:
    where tables are is decided for the largest batch. The forward pass runs alone on the network.

    Raises:
        InputError: replicas that do not divide the platform, tables that its memory does not hold,
            and what `dlrm` refuses.
    """
    if not 1 <= replicas <= platform.npus or platform.npus % replicas:
        message = f"{replicas} replicas on {platform.npus} NPUs"
        raise InputError([Problem("", "replicas", message, "a divisor of the NPUs")])
    npus = platform.npus // replicas
    if not 1 <= most <= MOST_SAMPLES:
        message = f"batches of {most} samples"
        raise InputError([Problem("", "batch_samples", message, f"1 to {MOST_SAMPLES:,}")])
    capacity = platform.describe()["npu"]["memory_capacity_bytes"]
    if not capacity:
        help_ = "a size: --set npu.memory.capacity=80GB"
        raise InputError(
            [Problem("", "npu.memory.capacity", "the platform does not say it", help_)]
        )
    largest = -(-most // npus)
    words = {"dp": npus, "capacity": capacity, **options}
    try:
        first = forward(model, local_batch=largest, **words)
    except InputError as error:
        raise InputError([_of_memory(each) for each in error.problems]) from None
    placement = first.run.placement
    kept = {key: value for key, value in words.items() if key not in _PLACING}
    locals_ = sorted({*(2**step for step in range(largest.bit_length())), largest})
    found = []
    for local in locals_:
        made = first
        if local != largest:
            made = forward(model, local_batch=local, plan=placement.plan, **kept)
        found.append(_timed(made.workload._core, made.ends, platform, backend, npus, replicas))
    sizes = tuple(npus * local for local in locals_)
    held = max(sum(placement.memory(npu, first.run.sizes.embedding, "sgd")) for npu in range(npus))
    tables = ", ".join(f"{count} {scheme}" for scheme, count in placement.schemes)
    return Batches(
        npus, sizes, tuple(total for total, _ in found), tuple(parts for _, parts in found),
        tables, held, (*first.run.notes, HOSTS),
    )  # fmt: skip


def _of_memory(problem: Problem) -> Problem:
    """Want of memory as a problem of the platform, which says how much there is."""
    if problem.place != "capacity":
        return problem
    ways = (
        "more NPUs for each replica, sharding auto or row, table_precision fp16, a smaller cache, "
        "or tier host"
    )
    return Problem("", "npu.memory.capacity", problem.message, ways)


_PLACING = ("sharding", "column_shards", "tier", "plan", "ranks_per_node")
"""Options that decide where tables are."""


def _timed(
    workload: _core.Workload,
    ends: tuple[Mapping[str, tuple[int, ...]], ...],
    platform: Platform,
    backend: str | None,
    npus: int,
    replicas: int,
) -> tuple[float, dict[str, float]]:
    """Seconds of a batch, and of its parts on the rank that ends last."""
    part = platform if replicas == 1 else platform.changed({"npus": npus})
    times = _core.ends(workload, part._core, backend, list(range(npus)))
    last = max(range(npus), key=lambda rank: max(times[rank]))
    at, parts = 0, dict[str, float]()
    for name in PARTS:
        if nodes := ends[last].get(name):
            done = max(at, *(times[last][node] for node in nodes))
            parts[name] = (done - at) / 1e12
            at = done
    return at / 1e12, parts
