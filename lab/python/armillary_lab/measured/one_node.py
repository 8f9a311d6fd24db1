"""Measured collectives of NCCL within one node: `measured/one_node.csv.gz`.

5,046 medians of 7,833 times: four collectives on 2, 4 and 8 GPUs, 512 B to 512 MiB, by GPU and
version of NCCL. Source: ai-dynamo/aiconfigurator@095f58a5 `systems/data`, Apache-2.0, collected by
`collector/collect_nccl.py` there: nccl-tests, one process with a thread for each GPU, 100 to 1,000
calls in a row, out of place. Sizes are bytes as nccl-tests counts them; the source counts elements.

The times are the device's: they are linear in the steps of a ring down to 5 us, so the host is
never what the next call waits for. Repeated collections of one setup differ by 1.5 % at the median
and by 9 % at the 90th percentile, largest less smallest (`spread`)."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import median

from .sweeps import MeasuredSweep

SOURCE = "ai-dynamo/aiconfigurator@095f58a5 systems/data"
PRESETS = {"A100": "dgx-a100", "H100": "dgx-h100", "B200": "dgx-b200", "GB200": "gb200-nvl72"}
"""The preset of each GPU. L40S have none: their GPUs talk over PCIe, and the rate per GPU falls
from 20 GB/s on two to 1.4 GB/s on eight, which depends on the host's sockets."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The median time of one collective on one node."""

    gpu: str
    nccl: str
    """Version of NCCL."""
    collective: str
    dtype: str
    gpus: int
    size: int
    """Bytes as nccl-tests counts them."""
    us: float
    repeats: int
    spread: float
    """Largest of the repeated times over the smallest."""


@cache
def measured() -> tuple[Measured, ...]:
    """All medians, in the order of their file."""
    packed = resources.files(__package__).joinpath("one_node.csv.gz").read_bytes()
    rows = csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
    return tuple(
        Measured(
            row["gpu"],
            row["nccl"],
            row["collective"],
            row["dtype"],
            int(row["gpus"]),
            int(row["bytes"]),
            float(row["time_us"]),
            int(row["repeats"]),
            float(row["spread"]),
        )
        for row in rows
    )


def versions(gpu: str) -> tuple[str, ...]:
    """The versions of NCCL that were measured on a GPU."""
    return tuple(dict.fromkeys(each.nccl for each in measured() if each.gpu == gpu))


def one_node_sweeps(
    kept: Callable[[Measured], bool] = lambda each: True,
) -> Iterator[MeasuredSweep]:
    """Measurements on GPUs that have a preset: a sweep for each GPU, collective and number of
    GPUs, each point the median over versions (of the median over types of data)."""
    found: dict[tuple[str, str, int], dict[int, dict[str, list[float]]]] = {}
    for each in filter(kept, measured()):
        if each.gpu in PRESETS:
            points = found.setdefault((each.gpu, each.collective, each.gpus), {})
            points.setdefault(each.size, {}).setdefault(each.nccl, []).append(each.us)
    for (gpu, collective, gpus), points in found.items():
        yield sweep(
            gpu,
            collective,
            gpus,
            [(size, median(map(median, each.values()))) for size, each in sorted(points.items())],
        )


def groups(chosen: Iterable[Measured]) -> Iterator[tuple[MeasuredSweep, list[Measured]]]:
    """Medians of one GPU, collective and number of GPUs, as a sweep with a point for each."""
    found: dict[tuple[str, str, int], list[Measured]] = {}
    for each in chosen:
        found.setdefault((each.gpu, each.collective, each.gpus), []).append(each)
    for key, group in found.items():
        yield sweep(*key, [(each.size, each.us) for each in group]), group


def sweep(gpu: str, collective: str, gpus: int, points: list[tuple[int, float]]) -> MeasuredSweep:
    """Points of one collective as a sweep of the GPU's preset."""
    name = f"{gpu.lower()}x{gpus}_aiconfigurator_{collective}"
    preset, settings = PRESETS[gpu], (("npus", str(gpus)),)
    return MeasuredSweep(
        name, "A", gpu, gpus, 1, collective, preset, settings, preset, settings, SOURCE,
        tuple(points),
    )  # fmt: skip
