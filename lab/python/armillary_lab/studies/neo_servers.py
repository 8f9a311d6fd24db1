"""Neo's 40 times: model A on ZionEX against 45 parameter servers and 15 trainers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from armillary.plan.servers import ServerRates, rates
from armillary.platform import Platform

from ..study import Study, StudyRow, analytical, claimed, unreferenced
from .neo_throughput import RATES

TRAINERS, SERVERS, DENSE = 15, 45, 15
"""Machines; the paper does not say how many of the servers hold the MLPs. Here these come on top,
enough not to matter."""
PEAK = 5.12
"""TFLOP/s: two sockets of 20 cores at 2.0 GHz, 64 operations in FP32 a cycle."""
SHARES = (0.25, 0.75)
"""Shares of the peak that MLPs may reach instead of half."""
OPTIONS: dict[str, Any] = {"local_batch": 150, "threads": 2, "steps": 20, "sync_every": 20}
MACHINE = """
topology: Switch({machines})
links: {{bandwidth: {card} Gb/s, per: npu, latency: 20 us}}
npu: {{peak: {peak} TFLOPS, memory: {{bandwidth: 100 GB/s, capacity: 256 GB}}}}
"""

CHOSEN = "the machines, and that MLPs reach half of their peak, are our assumptions"
OTHER = "what an assumption decides"


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """The rate, what it means for ZionEX, then other machines."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    found = reached(backend)
    none, where = unreferenced(), "section 8.2"
    rate = found.samples_per_second
    yield StudyRow("45 servers, 15 trainers", backend, none, rate / 1e3, "k samples/s", CHOSEN)
    over = claimed(40, where, "=", 0.25)
    setup = f"ZionEX's {RATES['A']} M samples/s over it"
    yield StudyRow(setup, backend, over, RATES["A"] * 1e6 / rate, "times", CHOSEN)
    for name, busy in (("trainers", found.trainers), ("servers", found.servers)):
        yield StudyRow(f"{name} compute", backend, none, 100 * busy, "% of the time", CHOSEN)
    others: dict[str, dict[str, Any]] = {
        **{f"MLPs at {each:.0%} of the peak": {"share": each} for each in SHARES},
        "cards of 10 Gb/s": {"card": 10},
        "one dense server": {"dense": 1},
    }
    for setup, changed in others.items():
        rate = reached(backend, **changed).samples_per_second / 1e3
        yield StudyRow(setup, backend, none, rate, "k samples/s", OTHER)


def reached(backend: str, share: float = 0.5, card: int = 25, dense: int = DENSE) -> ServerRates:
    """Rates where MLPs reach a share of the peak, with cards of some Gb/s."""
    machines = TRAINERS + SERVERS + dense
    text = MACHINE.format(machines=machines, card=card, peak=PEAK * share)
    given = {"trainers": TRAINERS, "servers": SERVERS, "dense_servers": dense, **OPTIONS}
    return rates("dlrm-neo-a", Platform.parse(text, "cpus.yml"), backend=backend, **given)


STUDY = Study(
    "Trainers wait for no one, and the rate is that in the middle of many steps. The paper prints "
    "neither the machines nor the rate of its older system. So these are assumed: two sockets of "
    "20 cores with 5.12 TFLOP/s in FP32. MLPs reach half of that. Memory gives 100 GB/s of rows. "
    "Cards have 25 Gb/s. A trainer has two steps of 150 samples under way. Its MLPs are averaged "
    "every 20 steps, by 15 more servers. ZionEX has the paper's 1.2 M samples/s.",
    rows,
)
