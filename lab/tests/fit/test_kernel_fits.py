"""Fits of single kernels, on drawn kernels whose parameters are known."""

from __future__ import annotations

import random

from armillary.kernels import Gemm, Stream, seconds
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform
from armillary_lab.fit.kernels import unseen
from armillary_lab.fit.kernels.search import Problem, settings

KEYS = ("stream.launch", "stream.efficiency")
TRUE = {"stream.launch": 4.0, "stream.efficiency": 0.8}
START = {"stream.launch": 2.0, "stream.efficiency": 0.9}


def drawn(system: str, seed: int) -> list[Measured]:
    """Streams that take what the true parameters say."""
    draw = random.Random(seed)
    shapes = [Stream(bytes=int(10 ** draw.uniform(2, 10))) for _ in range(60)]
    platform = Platform.load(SYSTEMS[system].preset, settings(TRUE))
    times = seconds(shapes, platform)
    return [
        Measured("stream", system, "x 1", shape, 1e6 * time)
        for shape, time in zip(shapes, times, strict=True)
    ]


def test_a_fit_finds_the_parameters() -> None:
    rows = drawn("h100", 1)
    found = Problem(rows, KEYS).fit(START)
    assert all(abs(found[key] / TRUE[key] - 1) < 0.01 for key in KEYS), found


def test_what_is_left_out_is_predicted_by_the_rest() -> None:
    rows = drawn("h100", 1) + drawn("a100", 2)
    found = list(unseen.shapes(rows, KEYS, START))
    assert sorted(row.us for row, _ in found) == sorted(row.us for row in rows)
    assert max(abs(log) for _, log in found) < 0.02


def test_a_generation_is_predicted_by_its_sibling() -> None:
    """With the sibling's parameters true, and its own never looked at."""
    rows = drawn("h100", 1) + drawn("a100", 2)
    true = {"launch": "4 us", "efficiency": 0.8}
    asked: list[str] = []

    def of(name: str) -> dict[str, object]:
        asked.append(name)
        return dict(true)

    found = list(unseen.generations(rows, of))
    assert sorted(asked) == ["ada", "blackwell"]
    assert len(found) == len(rows)
    assert max(abs(each.log) for each in found) < 1e-3


def test_a_shape_is_in_one_part_in_every_format() -> None:
    """The counts alone decide: no format, library, version or GPU moves a product."""
    draw = random.Random(3)
    parts = set()
    for _ in range(40):
        m, n, k = (draw.randint(1, 9999) for _ in range(3))
        rows = [
            Measured("gemm", system, software, Gemm(m=m, n=n, k=k, format=format), 1.0)
            for system, software, format in (("h100", "vllm 1", "bf16"), ("b200", "x 2", "fp8"))
        ]
        of = {unseen.part_of(row) for row in rows}
        assert len(of) == 1
        parts |= of
    assert parts == set(range(5))
