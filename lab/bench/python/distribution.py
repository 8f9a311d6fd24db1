"""The kernels that distribute lookups over ranks, next to FBGEMM's, on one core.

`python lab/bench/python/distribution.py PEERS`: `PEERS` is the folder with `fbgemm_fix.py`, without
which FBGEMM 1.9.0 runs its slow kernels. The shapes are those of `bench_misc.py` there: 26
features, 2048 samples from each of 8 ranks, 8 lookups a bag. CPU time, medians of `ROUNDS` rounds
that take turns; our arrays for results are used again, and FBGEMM allocates its own."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary_train import _train

FEATURES, SAMPLES, RANKS, POOLING, ROWS = 26, 2048, 8, 8, 10**6
ROUNDS = 31


def times(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median CPU seconds of each work."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            work()
            begin = time.process_time()
            work()
            found[name].append(time.process_time() - begin)
    return {name: float(np.median(each)) for name, each in found.items()}


def permute(random: np.random.Generator, kind: str) -> None:
    """(W, T, B) to (T, W, B)."""
    lengths = random.poisson(POOLING, (RANKS * FEATURES, SAMPLES)).astype("i4")
    indices = random.integers(0, ROWS, lengths.sum()).astype(kind)
    order = [rank * FEATURES + feature for feature in range(FEATURES) for rank in range(RANKS)]
    to = np.empty_like(lengths).ravel(), np.empty_like(indices)

    def ours() -> None:
        blocks = _train.Blocks([SAMPLES] * len(order), lengths, len(indices))
        blocks.permute_bags(order, lengths, to[0])
        blocks.permute_lookups(order, indices, to[1])

    given = torch.from_numpy(lengths), torch.from_numpy(indices)
    places = torch.tensor(order, dtype=torch.int32)

    def theirs() -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.fbgemm.permute_2D_sparse_data(
            places, *given, None, len(indices)
        )
        return found

    ours()
    assert np.array_equal(theirs()[1].numpy(), to[1])
    for name, each in times({"ours": ours, "fbgemm": theirs}).items():
        bytes_ = 2 * indices.nbytes / each / 1e9
        rate = len(indices) / each / 1e6
        print(f"permute   {kind} {name:6} {rate:7.0f} M indices/s {bytes_:6.1f} GB/s")


def bucketize(random: np.random.Generator, kind: str, pooling: int) -> None:
    """Rows cut evenly over 8 ranks, and unevenly."""
    lengths = random.poisson(pooling, (FEATURES, SAMPLES)).astype(kind)
    indices = random.integers(0, ROWS, lengths.sum()).astype(kind)
    share = ROWS // RANKS
    even = [share * (rank + 1) for rank in range(RANKS)]
    uneven = [*np.sort(random.choice(ROWS - 1, RANKS - 1, replace=False) + 1).tolist(), ROWS]
    segments = [(feature, shard) for shard in range(RANKS) for feature in range(FEATURES)]
    to = np.empty(RANKS * lengths.size, "i4"), np.empty(len(indices), "i4"), None

    def ours(ends: list[int]) -> Callable[[], Any]:
        router = _train.Router([("f", "t", ROWS, ends)] * FEATURES, segments)

        def work() -> None:
            router.count(SAMPLES, (lengths, indices, None))
            router.fill((lengths, indices, None), to)

        return work

    given = torch.from_numpy(lengths.ravel()), torch.from_numpy(indices)
    sizes = torch.full((FEATURES,), share, dtype=given[0].dtype)

    def theirs() -> tuple[Tensor, ...]:
        bucketed = torch.ops.fbgemm.block_bucketize_sparse_features
        found: tuple[Tensor, ...] = bucketed(*given, False, False, sizes, RANKS)
        return found

    ours(even)()
    assert np.array_equal(theirs()[1].numpy(), to[1])
    works = {"even": ours(even), "uneven": ours(uneven), "fbgemm": theirs}
    for name, each in times(works).items():
        rate = len(indices) / each / 1e6
        print(f"bucketize {kind} {name:6} {rate:7.0f} M indices/s, {pooling} lookups a bag")


def replicate(random: np.random.Generator, kind: str) -> None:
    """Whole features for 4 column shards each."""
    lengths = random.poisson(POOLING, (FEATURES, SAMPLES)).astype("i4")
    indices = random.integers(0, ROWS, lengths.sum()).astype(kind)
    segments = [(feature, 0) for _ in range(4) for feature in range(FEATURES)]
    to = np.empty(4 * lengths.size, "i4"), np.empty(4 * len(indices), "i4"), None
    router = _train.Router([("f", "t", ROWS, [])] * FEATURES, segments)

    def ours() -> None:
        router.count(SAMPLES, (lengths, indices, None))
        router.fill((lengths, indices, None), to)

    places = torch.tensor([feature for feature, _ in segments], dtype=torch.int32)
    given = torch.from_numpy(lengths), torch.from_numpy(indices)

    def theirs() -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.fbgemm.permute_2D_sparse_data(
            places, *given, None, 4 * len(indices)
        )
        return found

    ours()
    assert np.array_equal(theirs()[1].numpy(), to[1])
    for name, each in times({"ours": ours, "fbgemm": theirs}).items():
        print(f"replicate {kind} {name:6} {4 * len(indices) / each / 1e6:7.0f} M indices/s")


def columns(random: np.random.Generator) -> None:
    """Pooled rows of 26 features of width 64 from 2 ranks, and gradients back."""
    width = 64
    runs = [(at % 2, at // 2 * width, at * width, width, False) for at in range(FEATURES)]
    moved = _train.Columns(FEATURES * width, [FEATURES // 2 * width] * 2, runs)
    blocks = random.normal(size=SAMPLES * FEATURES * width).astype("f4")
    batch = np.empty_like(blocks)
    works = {
        "collect": lambda: moved.collect(SAMPLES, np.split(blocks, 2), batch),
        "spread": lambda: moved.spread(SAMPLES, batch, blocks),
    }
    for name, each in times(works).items():
        print(f"{name:9} float32   {2 * blocks.nbytes / each / 1e9:6.1f} GB/s")


def main() -> None:
    """All kernels."""
    sys.path.insert(0, sys.argv[1])
    import fbgemm_fix

    fbgemm_fix.fix()
    import fbgemm_gpu  # noqa: F401

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    for kind in ("i8", "i4"):
        permute(random, kind)
        for pooling in (8, 32, 1):
            bucketize(random, kind, pooling)
        replicate(random, kind)
    columns(random)


main()
