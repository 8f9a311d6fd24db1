"""The page of one kernel: its time, its parts, and the same kernel on other GPUs.

Here: its facts and tables. Not here: HTML (`page.py`), times (`kernels`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..units import GB, NS_PER_S
from .page import Fact, Page, Section, Table
from .quantity import bandwidth, rate, share, time


def page(
    title: str,
    words: str,
    platform: str,
    seconds: float,
    operations: float,
    bytes: float,
    parts: Mapping[str, float],
    ends: tuple[float, float] | None,
    origin: str,
    others: Sequence[tuple[str, str, float | None]],
    warnings: Sequence[str] = (),
) -> Page:
    """The page of a kernel. `words` are its shape, `parts` the seconds of each part alone, `ends`
    those of its 80 % interval, `origin` says where the interval comes from, and `others` are
    preset, NPU and seconds of the same kernel elsewhere."""
    facts = [Fact("Time", time(seconds * NS_PER_S), f"one kernel on {platform}", main=True)]
    if ends is not None:
        shown = f"{time(ends[0] * NS_PER_S, 3)} to {time(ends[1] * NS_PER_S, 3)}"
        facts.append(Fact("80 % interval", shown, origin))
    if operations:
        facts.append(Fact("Rate", rate(operations / seconds), "floating-point operations"))
    if bytes:
        facts.append(Fact("Memory", bandwidth(bytes / seconds / GB), "read and written once"))
    longest = max(parts, key=lambda name: parts[name])
    return Page(
        title=title,
        lead=f"{words}. The kernel runs by itself on one NPU of {platform}.",
        verdict=f"The kernel takes {time(seconds * NS_PER_S)}; its longest part is {longest}.",
        facts=facts,
        warnings=warnings,
        sections=[
            Section("Parts", [_parts(parts, seconds)]),
            Section("Other GPUs", [_others(others, seconds)]),
        ],
    )


def _parts(parts: Mapping[str, float], seconds: float) -> Table:
    rows = [
        (name, time(each * NS_PER_S), share(each / seconds))
        for name, each in sorted(parts.items(), key=lambda pair: -pair[1])
    ]
    note = "Each part alone. Parts overlap, so their sum may exceed the time of the kernel."
    return Table("Parts of the time", ("part", "alone", "of the kernel's time"), rows, note)


def _others(others: Sequence[tuple[str, str, float | None]], seconds: float) -> Table:
    rows = [
        (preset, npu, *((time(each * NS_PER_S), f"{each / seconds:.2f}") if each else ("-", "-")))
        for preset, npu, each in others
    ]
    note = "A dash: the platform does not say how long such a kernel takes."
    columns = ("preset", "NPU", "time", "of the time here")
    return Table("The same kernel elsewhere", columns, rows, note, labels=2)
