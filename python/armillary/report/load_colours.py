"""The load of links as a colour: the share of a step in which a link was sending.

The ramp goes from pale to dark on a light page, and from dull to bright on a dark one (`page.css`
turns it), so that the busiest link stands out on both. Lightness alone orders it, for readers who
don't see all colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from .svg import INK, LINE, line, text

STEPS = ((0.2, "#f2b06a"), (0.4, "#e57f3d"), (0.6, "#c94f32"), (0.8, "#9a2332"), (1.0, "#5c0a33"))
"""Up to which share a colour is used, and the colour."""
UNUSED = "#c8c8c8"
FAILED = "#d6006c"


def colour(share: float | None) -> str:
    """The colour of a link that was sending for this share of the step, or of one without a known
    load."""
    if share is None:
        return LINE
    if share <= 0:
        return UNUSED
    return next((colour for most, colour in STEPS if share <= most), STEPS[-1][1])


def over_time(rows: Sequence[str | None]) -> str:
    """An attribute with the percent of each bin in which the busiest of several links was sending,
    two hexadecimal digits each as in `rows`, for the slider of a page (`load.js`); nothing without
    bins."""
    bins = zip_longest(*(bytes.fromhex(row) for row in rows if row), fillvalue=0)
    digits = bytes(min(max(percents), 100) for percents in bins).hex()
    return f' data-sends="{digits}"' if digits else ""


def timed(step_ns: float, bin_ns: float) -> str:
    """Attributes of the element around links with `over_time`: the step and the width of a bin."""
    return f' data-step-ns="{step_ns:.12g}" data-bin-ns="{bin_ns:.12g}"'


def legend(left: float, y: float) -> Iterator[str]:
    """Legend of the colours, in a line of about 560 pixels."""
    said = "Busiest link, share of the step in which it sends:"
    yield text(left, y + 4, said, 12, INK, anchor="start")
    at = left + 288
    entries = [("none", UNUSED)] + [(f"to {most:.0%}", colour) for most, colour in STEPS]
    for label, shade in entries:
        yield line(at, y, at + 18, y, shade, 4)
        yield text(at + 23, y + 4, label, 12, INK, anchor="start")
        at += 23 + 7 * len(label) + 10


LEGEND_WIDTH = 288 + 58 + 72 * len(STEPS)
