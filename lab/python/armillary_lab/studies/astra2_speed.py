"""How long the simulation of an all-reduce on a torus takes (ASTRA-sim 2.0, section IV-C)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from armillary.api import simulate
from armillary.kept_runs import keeping
from armillary.platform import Platform

from ..study import Study, StudyRow, printed
from .astra2_table4 import all_reduce

SIZES = {4: 1700.0, 16: 3140.0}
"""NPUs along each of three dimensions -> milliseconds with the paper's analytical network."""

FLITS = 21.42 * 60_000
"""Milliseconds with the paper's flit-level network, 4x4x4."""

FASTER = 756.0
"""The paper's analytical network over that."""

WHERE = "section IV-C"

OURS = (
    "CPU time of this process, workload and report included; the paper's is wall time on "
    "its machine"
)
NO_FLITS = "against the paper's 21.42 minutes; no flits are simulated here"
FLITS_TOO = "against the paper's 21.42 minutes, flits against flits"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Milliseconds for every torus and backend, with all ranks simulated and with one for all."""
    found = [
        _row(n, backend, fold) for backend in backends for n in SIZES for fold in (False, True)
    ]
    faster = [(backend, FLITS / cpu_time(4, backend, fold=False)) for backend in backends]
    return [
        *found,
        *(
            StudyRow(
                "4x4x4, every rank, over the paper's flits",
                each,
                printed(FASTER, WHERE),
                gain,
                "x",
                FLITS_TOO if each == "flit" else NO_FLITS,
            )
            for each, gain in faster
        ),
    ]


def _row(n: int, backend: str, fold: bool) -> StudyRow:
    setup = f"{n}x{n}x{n}, {'one rank for all' if fold else 'every rank'}"
    ours = cpu_time(n, backend, fold=fold)
    return StudyRow(setup, backend, printed(SIZES[n], WHERE), ours, "ms", OURS)


def cpu_time(n: int, backend: str, *, fold: bool) -> float:
    """Milliseconds of CPU time for a 1 MB all-reduce on a torus of `n` NPUs along each
    dimension."""
    rings = "_".join([f"Ring({n})"] * 3)
    platform = Platform(
        rings, bandwidth="50 GB/s", latency="500 ns", per="link", settings={"scheduler.chunks": 1}
    )
    start = time.process_time()
    with keeping(None):  # a kept run takes no time
        simulate(all_reduce(platform.npus, 2**20), platform, backend=backend, fold=fold)
    return 1e3 * (time.process_time() - start)


STUDY = Study(
    "1 MB all-reduce on a 3-D torus, one chunk. The paper names neither links nor chunks; here 50 "
    "GB/s and 500 ns, which the time to simulate hardly depends on. Ours differ from run to run "
    "and machine to machine.",
    rows,
)
