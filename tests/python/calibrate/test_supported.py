"""A fit moves no time further than measurements around its size support."""

from __future__ import annotations

import math

import pytest

import armillary as arm
from armillary.calibrate import MeasuredTable
from armillary.calibrate.effect import curves
from armillary.calibrate.fit import Fit, calibrate
from armillary.calibrate.supported import Supported

SIZES = [2**power for power in (13, 16, 19, 22, 24, 26, 28, 30, 33)]


def times(preset: str, kind: str, sizes: list[int], fit: Fit | None = None) -> list[float]:
    platform = arm.Platform.load(preset)
    changed = platform.changed(fit.settings) if fit else platform
    found = changed._core.library_times([], kind, sizes)
    assert found is not None
    return list(found)


def table(preset: str, sizes: list[int], factors: dict[int, float], other: float) -> MeasuredTable:
    """All-reduces of 8 ranks: the times of a preset, times a factor for each size."""
    points = zip(sizes, times(preset, "all_reduce", sizes), strict=True)
    return MeasuredTable(
        "all_reduce.log", "all_reduce", 8,
        tuple((size, us * factors.get(size, other)) for size, us in points),
    )  # fmt: skip


@pytest.mark.parametrize(
    "factors", [{2**13: 1.5, 2**16: 1.2}, {2**13: 0.7, 2**16: 0.8}], ids=["slower", "faster"]
)
def test_small_sizes_do_not_move_what_was_measured_nearby(factors: dict[int, float]) -> None:
    """512 KiB and 4 MiB are 2 % from the preset, so 1 and 2 MiB move by 2 %, and collectives that
    were not measured by no more time than that."""
    measured = table("dgx-h100", SIZES, factors, 1.02)
    fit = calibrate("dgx-h100", [measured])
    between = [2**20, 2**21]
    before, after = (times("dgx-h100", "all_reduce", between, each) for each in (None, fit))
    assert after == pytest.approx([1.02 * us for us in before], rel=0.01)
    for curve in curves("dgx-h100", {}, fit, [measured]):
        if not curve.measured:
            at = curve.bytes.index(2**20)
            assert curve.after_us[at] == pytest.approx(curve.before_us[at], rel=0.04)


@pytest.mark.parametrize("preset", ["dgx-h100", "dgx-a100", "mi300x-8"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "broadcast", "reduce_scatter"])
def test_small_messages_say_nothing_of_large_ones(preset: str, kind: str) -> None:
    """A log up to 64 KiB, 30 % slower: from 1 MiB on all stays, and 64 KiB is as measured."""
    sizes = [2**power for power in (10, 12, 14, 15, 16)]
    fit = calibrate(preset, [table(preset, sizes, {}, 1.3)])
    large = [2**power for power in (20, 22, 24, 30)]
    before, after = (times(preset, kind, large, each) for each in (None, fit))
    assert after == pytest.approx(before, rel=0.01)
    if kind == "all_reduce":
        before, after = (times(preset, kind, sizes, each) for each in (None, fit))
        assert after == pytest.approx([1.3 * us for us in before], rel=0.02)


def test_large_messages_support_larger_ones() -> None:
    """Bandwidth alone decides from 16 MiB on: a log up to 256 MiB moves 8 GiB, too."""
    sizes = [2**power for power in (20, 22, 24, 26, 28)]
    fit = calibrate("dgx-h100", [table("dgx-h100", sizes, {}, 1.25)])
    [before], [after] = (times("dgx-h100", "all_reduce", [2**33], each) for each in (None, fit))
    assert after == pytest.approx(1.25 * before, rel=0.03)


def test_what_is_supported_at_a_size() -> None:
    some = Supported([(2**16, 0.2), (2**19, 0.02), (2**22, 0.04)])
    assert some.at(2**19) == (0.02, 0.02)
    assert some.at(2**20) == (0.02, 0.04)
    assert some.at(2**10) == (0.0, 0.2)
    assert some.at(2**26) == (0.0, 0.0)
    assert some.at(2**24) == pytest.approx((0.0, 0.02))
    assert Supported([]).at(2**20) == (0.0, 0.0)
    host = Supported([(2**16, math.log(1.2))], {2**16: 20.0})
    assert host.of_another(2**16, 10.0) == pytest.approx((math.log(1.2), math.log(1.4)))


def test_more_bytes_never_take_less_time() -> None:
    """Four times the platform's time at 64 KiB fades, but not below what smaller messages take."""
    sizes = [2**power for power in (10, 12, 14, 15, 16)]
    fit = calibrate("dgx-h100", [table("dgx-h100", sizes, {}, 4.0)])
    found = times("dgx-h100", "all_reduce", [2**power for power in range(10, 31)], fit)
    assert found == pytest.approx(sorted(found), rel=1e-3)  # factors have four decimals
