"""Speed of training through a cache that holds a quarter of the tables, against the same tables in
memory and in a file that the operating system maps.

    python benches/python/cache.py [--folder DIR] [--steps N]

All ways take the same steps on the same batches (Zipf 1.05 over shuffled rows), after the same
steps of larger batches, which fill the caches. Every row is on the disk before. A step looks up all
tables, runs an MLP of the size that `--hidden` gives forward and backward, and updates the tables.

Memory is limited fairly: the cache reads and writes with O_DIRECT, past the operating system's
cache, and all that belongs to it counts (`memory`, as a share of the tables). The mapped file is in
a memory cgroup (version 1 or 2), where pages of the file count. Its limit is what the process has
without the tables, 32 MiB for batches, and the same quarter. It needs root. Each way runs in a
process of its own."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from armillary.model.sharding_plan import Tier
from armillary.trainer.batch import SparseBatch
from armillary.trainer.caching import Caching
from armillary.trainer.embedding import EmbeddingCollection
from armillary.trainer.optimizers import RowWiseAdaGrad
from armillary.trainer.tables import Feature, Table

WAYS = ("memory", "cache", "cache without prefetch", "mapped file")
ZIPF = 1.05
WARM, LARGE = 25, 16
"""Steps that fill the caches, and how many times larger their batches are."""


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

    def of_step(self, step: int, times: int = 1) -> SparseBatch:
        """The batch of a step, or one that is some times larger."""
        draw = np.random.default_rng([times, step])
        samples = times * self.shape.batch
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


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * mmap.PAGESIZE


def confine(limit: int) -> Path:
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
    return group


class Mapped:
    """The tables in a file that the operating system maps: `EmbeddingCollection`'s kernels on its
    pages. The engine's memory is replaced by a mapping of the file at the same addresses."""

    def __init__(self, made: EmbeddingCollection, folder: Path) -> None:
        import ctypes

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


def measure(shape: Shape, way: str, folder: Path, steps: int) -> dict[str, Any]:
    """Milliseconds of a step, and what the cache did in one."""
    torch.set_num_threads(1)
    batches = Batches(shape)
    made = collection(shape, way, folder)
    group = None
    if way == "mapped file":
        Mapped(made, folder)
        group = confine(resident() + 2**25 + shape.bytes // 4)
    width = shape.tables * shape.dim
    mlp = torch.nn.Sequential(
        torch.nn.Linear(width, shape.hidden), torch.nn.ReLU(), torch.nn.Linear(shape.hidden, 1)
    )
    for step in range(WARM):
        made(batches.of_step(step, LARGE)).square().mean().backward()
    few = 10
    prepared = [batches.of_step(step) for step in range(few + steps + 1)]
    before, start = dict[str, Any](), 0.0
    for step in range(few + steps):
        if step == few:
            before, start = made.cache_report(), time.perf_counter()
        out = made(prepared[step])
        if way == "cache":
            made.prefetch(prepared[step + 1])
        mlp(out).square().mean().backward()
    seconds = time.perf_counter() - start
    found = {"ms": 1000 * seconds / steps}
    report = made.cache_report()
    if report:
        span = {name: report[name] - before[name] for name in report}
        found["hit_rate"] = 1 - span["misses"] / span["lookups"]
        found["stall_ms"] = 1000 * span["stall_seconds"] / steps
        found["read"] = span["rows_read"] / steps
        found["written"] = span["rows_written"] / steps
        found["memory"] = report["memory_bytes"] / shape.bytes
    if group is not None:
        Path(group.parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()
    return found


def main() -> None:
    """Measures all ways, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=None)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--pooling", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--way", choices=WAYS, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    shape = Shape(given.tables, given.rows, given.dim, given.batch, given.pooling, given.hidden)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.way is not None:
            print(json.dumps(measure(shape, given.way, Path(folder), given.steps)))
            return
    print(f"{shape}: {shape.bytes / 2**20:,.0f} MiB, a quarter in memory")
    base = 0.0
    for way in WAYS:
        run = subprocess.run(
            [sys.executable, *sys.argv, "--way", way], capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            print(f"{way:24} failed: {run.stderr.strip().splitlines()[-1]}")
            continue
        found = json.loads(run.stdout)
        base = base or found["ms"]
        rest = ", ".join(f"{name} {value:.3g}" for name, value in found.items() if name != "ms")
        print(f"{way:24} {found['ms']:8.1f} ms a step, {base / found['ms']:.0%} of memory  {rest}")


if __name__ == "__main__":
    main()
