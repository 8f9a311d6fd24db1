"""Speed of training through a cache that holds a quarter of the tables, against the same tables in
memory and in a file that the operating system maps.

    python lab/bench/python/cache.py [--folder DIR] [--turns N]

All ways take the same steps on the same batches (Zipf 1.05 over shuffled rows), after the same
other steps, which fill the caches. Every row is on the disk before. A step looks up all tables,
runs an MLP of the size that `--hidden` gives forward and backward, and updates the tables.

Memory is limited fairly: the cache reads and writes with O_DIRECT, past the operating system's
cache, and all that belongs to it counts (`memory`, as a share of the tables). The mapped file is in
a memory cgroup (version 1 or 2), where pages of the file count. Its limit is the same quarter, and
32 MiB for batches; memory that the process had before doesn't count there. It needs root. Each way
runs in a process of its own. They take turns, so that other work on the machine meets all of them
alike; results are medians over turns."""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import torch

from armillary.model.sharding_plan import Tier
from armillary_train.process import prepare_process
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.caching import Caching
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import RowWiseAdaGrad
from armillary_train.tables.table import Feature, Table

WAYS = ("memory", "cache", "cache without prefetch", "mapped file")
ZIPF = 1.05
WARM = 200
"""Steps that fill the caches."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the tables, of a batch and of the MLP."""

    tables: int
    rows: int
    dim: int
    batch: int
    pooling: int
    hidden: int

    @property
    def bytes(self) -> int:
        """Bytes of the tables and of their row-wise state."""
        return self.tables * self.rows * (4 * self.dim + 4)


class Batches:
    """Batches of Zipf-distributed rows; popular rows are anywhere in a table."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        weights = np.arange(1, shape.rows + 1, dtype=np.float64) ** -ZIPF
        self.sums = np.cumsum(weights / weights.sum())
        draw = np.random.default_rng(0)
        self.names = [draw.permutation(shape.rows) for _ in range(shape.tables)]

    def of_step(self, part: int, step: int) -> SparseBatch:
        """The batch of a step of the warm-up (0) or of the measurement (1)."""
        draw = np.random.default_rng([part, step])
        samples = self.shape.batch
        count = samples * self.shape.pooling
        parts = [
            names[np.searchsorted(self.sums, draw.random(count)).clip(max=self.shape.rows - 1)]
            for names in self.names
        ]
        lengths = torch.full((self.shape.tables, samples), self.shape.pooling)
        return SparseBatch(lengths, torch.from_numpy(np.concatenate(parts)))


def collection(shape: Shape, way: str, folder: Path) -> EmbeddingCollection:
    """The tables, with every row written."""
    on_disk = way.startswith("cache")
    tier: Tier = "disk" if on_disk else "device"
    tables = [Table(f"t{at}", shape.rows, shape.dim, tier=tier) for at in range(shape.tables)]
    features = [Feature(table.name, table.name) for table in tables]
    optimizer = RowWiseAdaGrad(learning_rate=0.01)
    caching = Caching(shape.bytes // 4, str(folder / "cache")) if on_disk else None
    made = EmbeddingCollection(tables, features, optimizer, caching=caching)
    if on_disk:
        step = 1 << 16
        for table in tables:
            for first in range(0, shape.rows, step):
                rows = range(first, min(shape.rows, first + step))
                made.write_rows(table.name, first, made.read_rows(table.name, rows))
    return made


def confine(limit: int) -> None:
    """Puts this process into a memory cgroup of its own with this limit."""
    root = Path("/sys/fs/cgroup/memory")
    old = root.is_dir()
    lines = Path("/proc/self/cgroup").read_text().split()
    own = next(line for line in lines if (":memory:" if old else "0::") in line).split(":")[2]
    group = (root if old else Path("/sys/fs/cgroup")) / own.strip("/") / f"bench-{os.getpid()}"
    group.mkdir()
    name = "memory.limit_in_bytes" if old else "memory.max"
    (group / name).write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def map_tables(made: EmbeddingCollection, folder: Path) -> None:
    """Puts the tables into files that the operating system maps, at the addresses of the engine's
    memory. So the kernels work on their pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for table in made.tables:
        weight = made.weight(table.name)
        path = folder / f"{table.name}.mapped"
        weight.numpy().tofile(path)
        file = os.open(path, os.O_RDWR)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        size = weight.numel() * 4
        shared_fixed = mmap.MAP_SHARED | 0x10
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        start = libc.mmap(weight.data_ptr(), size, protection, shared_fixed, file, 0)
        if start != weight.data_ptr():
            raise OSError(ctypes.get_errno(), "mmap")
        libc.madvise(start, size, mmap.MADV_RANDOM)


def serve(shape: Shape, way: str, folder: Path, steps: int) -> None:
    """Warms up one way, then takes `steps` steps for each line of the standard input. Writes the
    milliseconds of a step, and what the cache or the operating system did in one."""
    prepare_process(1)
    batches = Batches(shape)
    made = collection(shape, way, folder)
    width = shape.tables * shape.dim
    mlp = torch.nn.Sequential(
        torch.nn.Linear(width, shape.hidden), torch.nn.ReLU(), torch.nn.Linear(shape.hidden, 1)
    )
    if way == "mapped file":
        map_tables(made, folder)
        confine(2**25 + shape.bytes // 4)
    for step in range(WARM):
        made(batches.of_step(0, step)).square().mean().backward()
    print("ready", flush=True)
    for number, _ in enumerate(sys.stdin):
        some = [batches.of_step(1, number * steps + step) for step in range(steps + 1)]
        before, faults = made.cache_report(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        start = time.perf_counter()
        for batch, following in pairwise(some):
            out = made(batch)
            if way == "cache":
                made.prefetch(following)
            mlp(out).square().mean().backward()
        found = {"ms": 1000 * (time.perf_counter() - start) / steps}
        report = made.cache_report()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults
        if report:
            span = {name: report[name] - before[name] for name in report}
            found["hit rate"] = 1 - span["misses"] / span["lookups"]
            found["stall ms"] = 1000 * span["stall_seconds"] / steps
            found["rows read"] = span["rows_read"] / steps
            found["rows written"] = span["rows_written"] / steps
            found["memory"] = report["memory_bytes"] / shape.bytes
        elif way == "mapped file":
            found["pages read"] = faults / steps
        print(json.dumps(found), flush=True)


def main() -> None:
    """Measures all ways, each in a process of its own, which take turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=None)
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--pooling", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--way", choices=WAYS, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    shape = Shape(given.tables, given.rows, given.dim, given.batch, given.pooling, given.hidden)
    if given.way is not None:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            serve(shape, given.way, Path(folder), given.steps)
        return
    print(f"{shape}: {shape.bytes / 2**20:,.0f} MiB, a quarter in memory", flush=True)
    runs = {way: start_way(way) for way in WAYS}
    turns: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(given.turns):
        for way, (to, answers) in runs.items():
            to.write("\n")
            to.flush()
            turns[way].append(json.loads(next(answers)))
    for way, found in turns.items():
        middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
        speed = statistics.median(
            one["ms"] / other["ms"] for one, other in zip(turns["memory"], found, strict=True)
        )
        rest = ", ".join(f"{name} {value:.3g}" for name, value in middle.items() if name != "ms")
        print(f"{way:24} {middle['ms']:8.1f} ms a step, {speed:.0%} of memory  {rest}")


def start_way(way: str) -> tuple[IO[str], Iterator[str]]:
    """A process that has warmed up: where turns are asked for, and its answers."""
    command = [sys.executable, *sys.argv, "--way", way]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdin is not None and run.stdout is not None
    answers = iter(run.stdout)
    if next(answers, "") != "ready\n":
        raise SystemExit(f"{way}: the process failed")
    return run.stdin, answers


if __name__ == "__main__":
    main()
