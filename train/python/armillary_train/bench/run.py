"""All benchmarks of a machine, on every rank at once."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from armillary.model.dlrm import Dlrm

from ..process import prepare_process
from ..ranks.world import World
from . import clock, kernels, parts
from .collectives import KINDS, SIZES, collectives
from .request import Request

SCHEMA = "armillary.bench/1"

Progress = Callable[[float, str], None]


def bench(
    request: Request, facts: Dlrm | None, world: World, progress: Progress | None = None
) -> dict[str, Any]:
    """Times everything. The same on every rank."""
    prepare_process(request.threads)
    samples = max(1, request.global_batch // world.size)
    products = len(kernels.shapes(facts, samples))
    kinds: list[tuple[str, int, Iterator[dict[str, Any]]]] = [
        ("gemms", products, kernels.gemms(facts, samples, world)),
        ("streams", 12, kernels.streams(world)),
        ("embeddings", 12 if facts is None else 2, kernels.embeddings(facts, samples, world)),
        ("mlps", 3, kernels.mlps(facts, samples, world)),
        ("copies", 12 if torch.cuda.is_available() else 0, kernels.copies(world)),
        (
            "collectives",
            0 if world.size == 1 else 2 * len(KINDS) * len(SIZES) - len(SIZES),
            collectives(world),
        ),
        ("parts", parts.count(facts, world), parts.parts(facts, request, world)),
    ]
    total, done = sum(count for _, count, _ in kinds), 0
    found: dict[str, Any] = {}
    for name, _, rows in kinds:
        found[name] = []
        for row in rows:
            found[name].append(row)
            done += 1
            if progress is not None:
                progress(done / total, name)
    return {
        "schema": SCHEMA,
        "machine": _machine(),
        "processes": world.size,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "model": facts.name if facts is not None else None,
        "batch": request.global_batch,
        "repeats": clock.REPEATS,
        **found,
    }


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "processor": name,
        "cores": os.cpu_count() or 1,
        "memory_bytes": memory,
        "load": os.getloadavg()[0],
    }
