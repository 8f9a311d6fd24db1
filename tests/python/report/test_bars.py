"""Bars have the length asked for and parts in proportion."""

from hypothesis import given
from hypothesis import strategies as st

from armillary.report import bars
from armillary.step_parts import PARTS

SHARES = st.lists(st.floats(0, 1), min_size=len(PARTS), max_size=len(PARTS))


@given(SHARES.filter(lambda parts: sum(parts) > 0), st.integers(1, 200))
def test_stacked_fills_the_width_in_proportion(parts: list[float], width: int) -> None:
    shares = [part / sum(parts) for part in parts]
    bar = bars.stacked(shares, width, ascii_only=True).plain
    assert len(bar) == width
    for share, part in zip(shares, PARTS, strict=True):
        assert abs(bar.count(part.style.ascii) - share * width) < 1


@given(st.floats(0, 1), st.integers(2, 100))
def test_filled_is_empty_or_full_only_at_the_ends(part: float, width: int) -> None:
    bar = bars.filled(part, width, ascii_only=True).plain
    assert len(bar) == width
    assert ("#" not in bar) == (part == 0)
    assert ("." not in bar) == (part == 1)
