"""Collectives on the TPU presets against the formulas of the source that the presets cite.

jax-ml/scaling-book, "Sharded matrices": an all-gather or reduce-scatter of V bytes takes V / (W a)
over `a` axes of W bytes/s in both directions, an all-reduce twice that, an all-to-all over one axis
V / 4 W. The latency is that of half the hops of every axis. The formulas leave out the factor 1 -
1/N, an eighth on 8 chips."""

from __future__ import annotations

from math import prod

import pytest

from armillary.api import collective_us
from armillary.platform import Platform

LINK = {"tpu-v3-pod": 100, "tpu-v4-pod": 45, "tpu-v5e-pod": 45, "tpu-v5p-pod": 90}
"""GB/s of a link, one way."""
TORI = [
    ("tpu-v4-pod", (4, 4, 4)),
    ("tpu-v4-pod", (4, 4, 16)),
    ("tpu-v4-pod", (16, 16, 16)),
    ("tpu-v5e-pod", (16, 16)),
    ("tpu-v5p-pod", (16, 20, 28)),
    ("tpu-v3-pod", (32, 32)),
]
FACTORS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}


def torus(preset: str, sizes: tuple[int, ...], **settings: object) -> Platform:
    topology = "_".join(f"Ring({size})" for size in sizes)
    changed = {f"scheduler.{key}": value for key, value in settings.items()}
    return Platform.load(preset, {"topology": topology, **changed})


def book_us(kind: str, size: int, preset: str, sizes: tuple[int, ...]) -> float:
    """Time of a collective whose larger buffer has `size` bytes, us."""
    both = 2 * LINK[preset] * 1e3
    if kind == "all_to_all":
        # V = N size bytes in all. The longest axis carries the share of its lines.
        return max(sizes) * size / (4 * both)
    return FACTORS[kind] * size / (both * len(sizes))


@pytest.mark.parametrize("kind", [*FACTORS, "all_to_all"])
@pytest.mark.parametrize(("preset", "sizes"), TORI)
def test_large_collectives_take_what_the_scaling_book_says(
    preset: str, sizes: tuple[int, ...], kind: str
) -> None:
    size = 1 << 30
    time, book = collective_us(kind, size, torus(preset, sizes)), book_us(kind, size, preset, sizes)
    exact = book if kind == "all_to_all" else book * (1 - 1 / prod(sizes))
    assert exact * (1 - 1e-6) <= time < 1.1 * exact


@pytest.mark.parametrize("backend", ["analytical", "link", "flow"])
@pytest.mark.parametrize("kind", [*FACTORS, "all_to_all"])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 4, 16), (4, 8, 8), (4, 16)])
def test_backends_agree_on_a_torus(sizes: tuple[int, ...], backend: str, kind: str) -> None:
    size = 1 << 30
    time = collective_us(kind, size, torus("tpu-v4-pod", sizes), backend=backend)
    book = book_us(kind, size, "tpu-v4-pod", sizes)
    exact = book if kind == "all_to_all" else book * (1 - 1 / prod(sizes))
    assert exact * (1 - 1e-6) <= time < 1.1 * exact


@pytest.mark.parametrize(
    ("kind", "rounds", "book"), [("all_gather", 4, 373), ("all_reduce", 8, 746)]
)
def test_the_example_of_the_scaling_book(kind: str, rounds: int, book: int) -> None:
    """bf16[2048, 8192] on 8 v5e: 373 and 746 us; 7/8 of that is sent, and each hop takes 1 us."""
    time = collective_us(kind, 2048 * 8192 * 2, torus("tpu-v5e-pod", (8,)))
    assert 7 / 8 * book < time < 7 / 8 * book + 2 * rounds


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize(("preset", "sizes"), TORI)
def test_no_size_is_slower_than_in_one_chunk(
    preset: str, sizes: tuple[int, ...], kind: str
) -> None:
    whole = torus(preset, sizes, dimension_order="baseline", chunks=1, active_chunks=1)
    for power in range(12, 31, 3):
        one = collective_us(kind, 1 << power, whole)
        assert collective_us(kind, 1 << power, torus(preset, sizes)) <= one, 1 << power
