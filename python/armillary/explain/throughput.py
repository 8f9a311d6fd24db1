"""Which of two runs is faster, and for what: a step, a sample, a token.

Steps of different batches are compared by sample, and samples of different lengths by token: a step
that takes longer may do more. Model: rate = batch / step time. Not here: MFU (`report/rates.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..report import rates
from ..report.page import Table
from ..report.quantity import Quantity, number, operations, share, time
from ..report.reading import asked
from ..schema import Report
from ..units import NS_PER_S, counted

_LEAST = 5e-4
"""Smallest relative difference that counts."""


@dataclass(frozen=True)
class Throughput:
    """Work of one step: its `samples` and `tokens` (0 where unknown), its number of NPUs, and
    `step_ns`."""

    model: str
    npus: int
    step_ns: float
    samples: int
    tokens: int
    flops: int
    utilisation: float

    def ns(self, unit: str) -> float:
        """Time of one `step`, `sample` or `token`."""
        return self.step_ns / {"step": 1, "sample": self.samples, "token": self.tokens}[unit]

    def a_second(self, unit: str) -> float:
        """Number of units per second."""
        return NS_PER_S / self.ns(unit) if self.step_ns else 0.0

    def counts(self) -> list[tuple[str, int]]:
        """Units of work and how many a step has."""
        return [("sample", self.samples), ("token", self.tokens)]

    def as_dict(self) -> dict[str, Any]:
        """Rates as data for JSON; they are null where they are not known."""
        rows = {
            f"{name}s_per_s": self.a_second(name) if count else None
            for name, count in self.counts()
        }
        return {
            "npus": self.npus,
            "step_ns": self.step_ns,
            "samples": self.samples,
            "tokens": self.tokens,
            **rows,
        }


def of(report: Report) -> Throughput:
    """Work of the step in a report."""
    config = asked(report)
    summary = config["workload"].get("summary")
    step, npus = report["step_time_ns"], report["ranks"]
    if summary is None:
        return Throughput("", npus, step, 0, 0, 0, 0.0)
    found = rates.of(summary, step, config["platform"]["npu"].get("peak_flops"))
    used = found.utilisation if found else 0.0
    return Throughput(summary.model, npus, step, summary.batch, summary.tokens, summary.flops, used)


def unit(a: Throughput, b: Throughput) -> str:
    """Unit that the times of both are divided by: `step` where both do equal work, else `sample` or
    `token`."""
    if not (a.samples and b.samples) or (a.samples, a.tokens) == (b.samples, b.tokens):
        return "step"
    if a.tokens and b.tokens and a.tokens * b.samples != b.tokens * a.samples:
        return "token"
    return "sample"


def headline(a: Throughput, b: Throughput, names: tuple[str, str]) -> str:
    """Which is faster: `b.json takes 1 ms longer than a.json: ...`, or by sample where steps do not
    do as much."""
    first, second = names
    what = unit(a, b)
    if what == "step":
        return _of_steps(a.step_ns, b.step_ns, first, second)
    before, after = a.a_second(what), b.a_second(what)
    rated = f"{rate(after)} {what}s/s instead of {rate(before)}"
    if abs(after - before) <= _LEAST * before:
        return f"{second} is as fast per {what} as {first}: {rated}"
    way = "faster" if after > before else "slower"
    return (
        f"{second} is {abs(after / before - 1) * 100:.1f} % {way} per {what} than {first}: {rated}"
    )


def _of_steps(before: float, after: float, first: str, second: str) -> str:
    if before == after:
        return f"{second} takes as long as {first}: {time(before)}"
    way = "longer" if after > before else "less"
    percent = f" ({(after / before - 1) * 100:+.1f} %)" if before else ""
    new = f"{time(after)} instead of {time(before)}{percent}"
    return f"{second} takes {time(abs(after - before))} {way} than {first}: {new}"


def notes(a: Throughput, b: Throughput, names: tuple[str, str]) -> Iterator[str]:
    """Notes to the headline: steps with different amounts of work, models or numbers of NPUs."""
    first, second = names
    what = unit(a, b)
    if what != "step":
        yield (
            f"The steps do different amounts of work: {_batch(b)} in {time(b.step_ns)} against "
            f"{_batch(a)} in {time(a.step_ns)}. The times below are those of whole steps."
        )
    if a.model and b.model and a.model != b.model:
        yield f"The models differ: {b.model} in {second}, {a.model} in {first}."
    if a.npus != b.npus and what != "step":
        shared = "sample" if what == "sample" else "token"
        one, two = a.a_second(shared) / a.npus, b.a_second(shared) / b.npus
        yield (
            f"{second} has {counted(b.npus, 'NPU')}, {first} {counted(a.npus, 'NPU')}: {rate(two)} "
            f"instead of {rate(one)} {shared}s/s on each ({(two / one - 1) * 100:+.1f} %)."
        )
    elif a.npus != b.npus:
        yield f"{second} has {counted(b.npus, 'NPU')}, {first} {counted(a.npus, 'NPU')}."


def table(a: Throughput, b: Throughput, names: tuple[str, str]) -> Table:
    """Table of both runs side by side."""
    rows = [("Step time", time(a.step_ns), time(b.step_ns), _change(a.step_ns, b.step_ns))]
    for (what, one), (_, two) in zip(a.counts(), b.counts(), strict=True):
        if one and two:
            rows.append(
                (f"{what.capitalize()}s a step", number(one), number(two), _change(one, two))
            )
            before, after = a.a_second(what), b.a_second(what)
            rows.append(
                (f"{what.capitalize()}s/s", rate(before), rate(after), _change(before, after))
            )
    if a.samples and b.samples:
        before, after = a.ns("sample"), b.ns("sample")
        rows.append(("Time of a sample", time(before), time(after), _change(before, after)))
    if a.flops and b.flops:
        rows.append(
            (
                "Work of the model",
                operations(a.flops),
                operations(b.flops),
                _change(a.flops, b.flops),
            )
        )
    if a.utilisation and b.utilisation:
        rows.append(
            (
                "MFU",
                share(a.utilisation),
                share(b.utilisation),
                _change(a.utilisation, b.utilisation),
            )
        )
    if a.npus != b.npus:
        rows.append(("NPUs", number(a.npus), number(b.npus), _change(a.npus, b.npus)))
    return Table("Side by side", ("What", *names, "Change"), rows)


def _batch(found: Throughput) -> str:
    tokens = f" of {number(found.tokens // found.samples)} tokens" if found.tokens else ""
    return f"{counted(found.samples, 'sample')}{tokens}"


def _change(before: float, after: float) -> str:
    return f"{(after / before - 1) * 100:+.1f} %" if before else ""


def rate(value: float) -> str:
    """`5.204`, `48,898`."""
    return Quantity(f"{value:,.0f}" if value >= 10_000 else f"{value:.4g}", value)
