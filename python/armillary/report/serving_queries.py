"""The page of a recommendation model that answers queries.

Here: what is shown. Not here: HTML (`page.py`), the queue (`serve/queries.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..serve.queries import LATE, cost
from ..units import NS_PER_S, counted
from .page import Fact, Page, Section, Table
from .quantity import number, rate, share, size, time

if TYPE_CHECKING:
    from ..serve.queries import Answered, Promise
    from ..serve.run import Spread

_NAMES = {
    "inputs": "inputs to the NPUs",
    "rows": "rows from other memories",
    "lookup": "lookup of embedding rows",
    "bottom": "bottom MLP",
    "exchange": "exchange of pooled rows",
    "interaction": "interaction",
    "top": "top MLP",
}


def page(
    found: Answered,
    name: str,
    platform: str,
    kept: Promise | None = None,
    price: float | None = None,
    warnings: Sequence[str] = (),
) -> Page:
    """The page of queries to the model `name`: latency, what it consists of, batches."""
    load = found.load
    shape = f"{counted(found.replicas, 'replica')} of {counted(found.batches.npus, 'NPU')}"
    return Page(
        title=f"{name} on {platform}",
        lead=f"{shape}. {counted(load.count, 'query')}, {load.rate:g} a second ({load.arrival}).",
        verdict=_verdict(found),
        facts=list(_facts(found, kept, price)),
        warnings=warnings,
        sections=[
            Section("Latency", [_latency(found), _parts(found)]),
            Section("Batches", [_sizes(found)]),
            Section("Deployment", [_deployment(found)]),
        ],
    )


def _verdict(found: Answered) -> str:
    """The part that most of a query's latency is."""
    parts = found.parts
    largest = max(parts, key=lambda each: parts[each])
    whole = sum(parts.values())
    named = _NAMES.get(largest, "the wait for a batch and a free replica")
    text = named if largest in _NAMES else named.removeprefix("the ")
    return f"{text[:1].upper()}{text[1:]}: {share(parts[largest] / whole)} of the latency."


def _facts(found: Answered, kept: Promise | None, price: float | None) -> Iterator[Fact]:
    latency = found.latency
    yield Fact("Latency", _time(latency.p50), f"median; p99 {_time(latency.p99)}", main=True)
    yield Fact("Queries", f"{rate(found.load.count / found.span)} a second")
    yield Fact("Capacity", f"{rate(found.capacity)} queries a second", "while many wait")
    yield Fact("Busy", share(found.busy), "of a replica's time")
    if kept is not None:
        said = f"of the queries in {_time(kept.limit)}"
        yield Fact("Within the limit", share(kept.within), said)
        best = rate(float(f"{kept.rate:.3g}"))
        yield Fact("Rate", f"{best} queries a second", _kept(found, kept))
    if price is not None:
        yield Fact(
            "Cost", f"${cost(found, price):,.4g}", f"of a million queries at ${price:g} an NPU-hour"
        )


def _kept(found: Answered, kept: Promise) -> str:
    said = "99 % keep the limit"
    if kept.open:
        said += "; higher rates are not tried"
    if found.window and found.load.rate < kept.rate and kept.within < 1 - LATE:
        said += "; fewer do at lower rates, where batches wait for their window"
    return said


def _time(seconds: float) -> str:
    return time(seconds * NS_PER_S)


def _latency(found: Answered) -> Table:
    def row(name: str, spread: Spread) -> tuple[str, ...]:
        return (name, *map(_time, (spread.mean, spread.p50, spread.p90, spread.p99, spread.most)))

    rows = [row("Query", found.latency), row("wait for a batch", found.waiting)]
    return Table("Latency", ("", "mean", "p50", "p90", "p99", "largest"), rows)


def _parts(found: Answered) -> Table:
    parts = found.parts
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda pair: -pair[1])
    rows = [(_NAMES.get(name, name), _time(value), share(value / whole)) for name, value in ordered]
    note = "Means over queries. A part lasts from the end of those before; all add up."
    return Table("Parts of the latency", ("part", "mean", "share"), rows, note)


def _sizes(found: Answered) -> Table:
    sent = found.queue.batches
    samples = sum(each.samples for each in sent) / len(sent)
    rows = [
        (number(size_), _time(seconds), f"{size_ / seconds:,.4g}")
        for size_, seconds in zip(found.batches.samples, found.batches.seconds, strict=True)
    ]
    note = f"{counted(len(sent), 'batch')} of {samples:,.1f} samples on average."
    return Table("Times of batches", ("samples", "time", "samples a second"), rows, note)


def _deployment(found: Answered) -> Table:
    rows = [
        ("replicas", number(found.replicas)),
        ("NPUs of a replica", number(found.batches.npus)),
        ("tables", found.batches.tables),
        ("tables on the fullest NPU", size(found.batches.memory)),
        ("samples of a batch", number(found.most)),
        ("longest wait for others", _time(found.window)),
    ]
    return Table("Replicas", ("", ""), rows)
