"""The page of one kernel: its time, its parts, and the same kernel on other GPUs.

Here: its facts and tables. Not here: HTML (`page.py`), times (`kernels`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..kernels import Time
from ..uncertainty import Interval
from ..units import GB, NS_PER_S
from .page import Fact, Page, Section, Table
from .quantity import bandwidth, rate, share, time


def page(
    title: str,
    words: str,
    platform: str,
    found: Time,
    interval: Interval | None,
    others: Sequence[tuple[str, str, float | None]],
    warnings: Sequence[str] = (),
) -> Page:
    """The page of a kernel that takes the time `found`. `words` are its shape, `others` preset, NPU
    and seconds of the same kernel elsewhere."""
    seconds = found.seconds
    facts = [Fact("Time", time(seconds * NS_PER_S), f"one kernel on {platform}", main=True)]
    if interval is not None:
        shown = " to ".join(time(end * NS_PER_S, 3) for end in interval.of(seconds))
        facts.append(Fact("80 % interval", shown, interval.origin))
    facts.append(Fact("Rests on", found.basis.how, found.basis.said))
    if found.operations:
        facts.append(Fact("Rate", rate(found.operations / seconds), "floating-point operations"))
    if found.bytes:
        facts.append(Fact("Memory", bandwidth(found.bytes / seconds / GB), "read and written once"))
    longest = max(found.parts, key=lambda name: found.parts[name])
    return Page(
        title=title,
        lead=f"{words}. The kernel runs by itself on one NPU of {platform}.",
        verdict=f"The kernel takes {time(seconds * NS_PER_S)}; its longest part is {longest}.",
        facts=facts,
        warnings=warnings,
        sections=[
            Section("Parts", [_parts(found.parts, seconds)]),
            Section("Other GPUs", [_others(others, seconds)]),
        ],
    )


def _parts(parts: Mapping[str, float], seconds: float) -> Table:
    rows = [
        (name, time(each * NS_PER_S), share(each / seconds))
        for name, each in sorted(parts.items(), key=lambda pair: -pair[1])
    ]
    note = (
        "Each part alone, by the formula. Parts overlap, so their sum may exceed the time of the "
        "kernel."
    )
    return Table("Parts of the time", ("part", "alone", "of the kernel's time"), rows, note)


def _others(others: Sequence[tuple[str, str, float | None]], seconds: float) -> Table:
    rows = [
        (preset, npu, *((time(each * NS_PER_S), f"{each / seconds:.2f}") if each else ("-", "-")))
        for preset, npu, each in others
    ]
    note = "A dash: the platform does not say how long such a kernel takes."
    columns = ("preset", "NPU", "time", "of the time here")
    return Table("The same kernel elsewhere", columns, rows, note, labels=2)
