"""Speed of designs: `python lab/bench/python/design.py` prints the table of
`lab/results/<date>-design.md`.

One allocation of five workloads on four dimensions, and whole searches of 1,024 NPUs for the three
workloads of the multi-dimensional topologies paper: every factorisation up to four dimensions,
three blocks each."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from armillary.design import reader, search
from armillary.design.optimal import Constraint, Question, optimise
from armillary.estimate.step_model import serial

WORKLOADS = [
    {"model": "transformer-17b", "micro_batch": 16, "zero": 2},
    {"model": "gpt3-175b", "tp": 16, "micro_batch": 16, "zero": 2},
    {"model": "transformer-1t", "tp": 128, "micro_batch": 16, "zero": 2},
]


def timed(what: str, run: Callable[[], str]) -> None:
    """Runs once and prints wall and CPU time, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    said = run()
    print(
        f"| {what} | {time.perf_counter() - wall:.3f} | {time.process_time() - cpu:.3f} | {said} |"
    )


def allocation() -> str:
    """100 random instances, one after another; times are of all of them."""
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(100):
        loads = np.exp(rng.normal(0, 2, (5, 3, 4))) * 1e9
        models = tuple(
            serial("w", 1.0, [(f"t{j}", row) for j, row in enumerate(each)], 4) for each in loads
        )
        total = Constraint("total", (1.0,) * 4, 3e11, True)
        gaps.append(optimise(Question(models, (1.0,) * 5, (total,))).gap)
    return f"largest gap {max(gaps):.0e}"


def whole(objective: str) -> Callable[[], str]:
    """A search, its workloads read before."""
    spec = {
        "npus": 1024,
        "npu": {"peak": "234 TFLOPS"},
        "workloads": WORKLOADS,
        "topologies": {"dimensions": [1, 2, 3, 4]},
        "bandwidth": "300 GB/s",
        "cost": "multidim",
        "objective": objective,
    }
    task = reader.task(spec)

    def run() -> str:
        found = search.search(task)
        return (
            f"{found.topologies:,} topologies, {found.proved:.0%} settled by "
            f"{found.programs:,} programs"
        )

    return run


def reading() -> str:
    """Generates the workloads and asks the simulator what they hide."""
    whole("step_time")
    return ""


def main() -> None:
    """Prints the table."""
    print("| what | wall s | CPU s | |\n|---|---|---|---|")
    timed("100 allocations, 5 workloads on 4 dimensions", allocation)
    timed("reading: three models, their overlap measured", reading)
    for objective in ("step_time", "performance_per_cost", "pareto"):
        timed(f"search, {objective}", whole(objective))


if __name__ == "__main__":
    main()
