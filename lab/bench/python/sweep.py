"""Speed of sweeps: `python lab/bench/python/sweep.py` prints the table of
`lab/results/<date>-sweep.md`.

Small points (two nodes on eight NPUs) and a step of GPT-3 175B on 1,024 NPUs, 10,000 points each,
by worker processes as `arm.sweep` runs them, journal and table included; and the small ones by
threads of one process, for comparison."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import armillary as arm
from armillary.declared import Source
from armillary.sweep.points import points
from armillary.sweep.reader import study
from armillary.sweep.runner import Runner


def small(folder: Path) -> dict[str, object]:
    """10,000 bandwidths and chunks of one compute and one all-reduce."""
    program = arm.workload.Program()
    first = program.compute("forward", [], operations=10**9, bytes=10**6)
    program.collective("gradients", [first], "all_reduce", 1 << 24)
    arm.Workload.listed("toy", [program], [0] * 8, {}).write(folder / "work")
    bandwidth = {"from": "100 GB/s", "to": "900 GB/s", "steps": 2500}
    parameters = {
        "platform.links[0].bandwidth": bandwidth,
        "platform.scheduler.chunks": [1, 2, 4, 8],
    }
    return {"workload": str(folder / "work"), "platform": "dgx-h100", "parameters": parameters}


def gpt3(chunks: list[int]) -> dict[str, object]:
    """10,000 networks under one step of GPT-3 175B, tensor 8, data 128, 2,415 nodes a rank."""
    return {
        "workload": {"model": "gpt3-175b", "options": {"tp": 8, "dp": 128, "global_batch": 128}},
        "platform": {"file": "dgx-h100-16n", "npus": 1024},
        "parameters": {
            "platform.links[0].bandwidth": {"from": "200 GB/s", "to": "1800 GB/s", "steps": 10},
            "platform.links[1].bandwidth": {"from": "12.5 GB/s", "to": "400 GB/s", "steps": 25},
            "platform.links[1].latency": {"from": "0.5 us", "to": "5 us", "steps": 10},
            "platform.scheduler.chunks": chunks,
        },
    }


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(what: str, workers: str, work: Callable[[], int]) -> None:
    """One row."""
    wall, used = time.monotonic(), cpu()
    count = work()
    wall, used = time.monotonic() - wall, cpu() - used
    print(
        f"| {what} | {workers} | {count:,} | {wall:.1f} | {used:.1f} | {count / wall:,.0f} | "
        f"{count / used:,.0f} |",
        flush=True,
    )


def by_processes(content: dict[str, object], workers: int) -> int:
    """Points, with a journal on disk."""
    with tempfile.TemporaryDirectory() as folder:
        found = arm.sweep(content, Path(folder) / "results", workers=workers)
    if found.failed:
        raise SystemExit(str(found.table["error"].drop_nulls()[0]))
    return found.table.height


def by_threads(content: dict[str, object], workers: int) -> int:
    """Points, without journal and table."""
    wanted = study(Source(content))
    runner = Runner(wanted)
    with ThreadPoolExecutor(workers) as pool:
        return sum(found.error is None for found in pool.map(runner.run, points(wanted)[0]))


def main() -> None:
    """The table."""
    print(
        "| what | workers | points | wall s | CPU s | points/s | points/CPU s "
        "|\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        toy = small(Path(folder))
        for workers in (1, 2):
            measure("small", f"{workers} processes", lambda: by_processes(toy, workers))  # noqa: B023
        for workers in (1, 2):
            measure("small", f"{workers} threads", lambda: by_threads(toy, workers))  # noqa: B023
    measure(
        "GPT-3, 1,024 NPUs, chunks 1, 4, 8, 16",
        "2 processes",
        lambda: by_processes(gpt3([1, 4, 8, 16]), 2),
    )
    measure(
        "GPT-3, 1,024 NPUs, chunks 1, 4, 16, 64",
        "2 processes",
        lambda: by_processes(gpt3([1, 4, 16, 64]), 2),
    )


if __name__ == "__main__":
    main()
