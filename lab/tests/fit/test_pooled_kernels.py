"""Fits of single kernels, on drawn kernels whose parameters are known, and the shipped files."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from armillary.kernels import Gemm, Stream, seconds
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform
from armillary_lab.fit.kernels import files, pooled, unseen
from armillary_lab.fit.kernels.pooled import Pool
from armillary_lab.fit.kernels.search import settings

KEYS = ("stream.launch", "stream.efficiency")
TRUE = {"stream.launch": 4.0, "stream.efficiency": 0.8}
START = np.log([2.0, 0.9])


def drawn(system: str, seed: int, true: Mapping[str, float] = TRUE) -> list[Measured]:
    """Streams that take what the true parameters say."""
    draw = random.Random(seed)
    shapes = [Stream(bytes=int(10 ** draw.uniform(2, 10))) for _ in range(60)]
    platform = Platform.load(SYSTEMS[system].preset, settings(true))
    times = seconds(shapes, platform)
    return [
        Measured("stream", system, "x 1", shape, 1e6 * time)
        for shape, time in zip(shapes, times, strict=True)
    ]


def test_a_fit_finds_the_parameters() -> None:
    pool = Pool(drawn("h100", 1) + drawn("a100", 2), KEYS, {})
    found = pool.values(pool.fit(START), "hopper")
    assert all(abs(found[key] / TRUE[key] - 1) < 0.01 for key in KEYS), found


def test_a_value_of_its_own_is_kept_only_where_it_is_needed() -> None:
    """Hopper's launch takes twice as long, and everything else is the same."""
    rows = drawn("h100", 1, {**TRUE, "stream.launch": 8.0}) + drawn("a100", 2) + drawn("b200", 3)
    every = [(key, name) for key in KEYS for name in ("hopper", "ampere", "blackwell")]
    full = Pool(rows, KEYS, {}, every)
    point = full.fit(np.r_[START, np.zeros(len(every))])
    chosen = pooled.choose(full, point)
    assert ("stream.launch", "hopper") in chosen
    assert not [own for own in chosen if own[0] == "stream.efficiency"]
    last = Pool(rows, KEYS, {}, chosen)
    found = last.fit(np.r_[START, np.zeros(len(chosen))])
    assert last.values(found, "hopper")["stream.launch"] == pytest.approx(8, rel=0.03)
    assert last.values(found, "ampere")["stream.launch"] == pytest.approx(4, rel=0.03)


def test_what_is_left_out_is_predicted_by_the_rest() -> None:
    rows = drawn("h100", 1) + drawn("a100", 2)
    found = list(pooled.shapes_out(Pool(rows, KEYS, {}), START))
    assert sorted(row.us for row, _ in found) == sorted(row.us for row in rows)
    assert max(abs(log) for _, log in found) < 0.02


def test_a_generation_is_predicted_by_the_others() -> None:
    """The values of a generation that is left out are never read: here Hopper's launch differs
    from what the others share, and Ampere's does not."""
    rows = drawn("h100", 1, {**TRUE, "stream.launch": 40.0}) + drawn("a100", 2) + drawn("l40s", 3)
    found = list(pooled.generations_out(Pool(rows, KEYS, {}), START))
    assert len(found) == len(rows)
    hopper = [(row.us, log) for row, log in found if row.system == "h100"]
    assert min(hopper)[1] == pytest.approx(np.log(4 / 40), abs=0.05)


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


@pytest.mark.parametrize(
    ("kind", "values", "before"),
    [("attention", 204, 372), ("experts", 202, 383), ("gemm", 90, 184), ("mla", 128, 308)],
)
def test_the_files_have_as_many_values_as_the_note_says(
    kind: str, values: int, before: int
) -> None:
    """Those of lab/results/2026-11-30-kernels.md; `before` is what four separate fits had."""
    assert files.count(kind) == values < before
    for name in files.GENERATIONS:
        own, shared = files.own(name, kind), files.own(files.SHARED, kind)
        assert not [key for key in own if shared.get(key) == own[key]], name
