"""The page of a deployment that serves requests.

Here: what is shown. Not here: HTML (`page.py`), the simulation (`serve`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..serve.deployment import same
from ..serve.document import cost, measured, outputs, steady_means
from ..serve.limits import Limits
from ..serve.verdict import verdict
from ..units import NS_PER_S, counted
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import number, share, size, time

if TYPE_CHECKING:
    from ..serve.deployment import Engines
    from ..serve.document import Price
    from ..serve.intervals import Uncertain
    from ..serve.run import Served, Spread
    from ..serve.what_if import Change

_NOTE = (
    "TTFT is the time to the first token, TPOT the mean time of each later token of a request, ITL "
    "the time between two tokens. Percentiles are over requests, those of ITL over tokens."
)


def page(
    found: Served,
    name: str,
    limits: Limits,
    price: Price | None = None,
    warnings: Sequence[str] = (),
    changes: Sequence[Change] = (),
    within: Uncertain | None = None,
) -> Page:
    """The page of a load of requests on a deployment of the model `name`, with `changes` that were
    simulated too, and intervals `within` which its results should be."""
    return Page(
        title=f"{name} on {_platforms(found)}",
        lead=f"{_deployment(found)}. {found.load.said}.",
        verdict=". ".join(_upper(each) for each in verdict(found)) + ".",
        facts=list(_facts(found, limits, price)),
        warnings=warnings,
        sections=[
            Section("Latency", [_latency(found), _NOTE]),
            *([Section("Uncertainty", [_uncertain(found, within, price)])] if within else []),
            *([Section("Steady state", [_steady(found)])] if steady_means(found) else []),
            *([Section("Measured", [_measured(found)])] if found.load.measured else []),
            Section("Time of steps", [_parts(found)]),
            *([Section("What would help", [_changes(changes, limits)])] if changes else []),
            Section("Load over time", [_over_time(found)]),
            Section("Deployment", [_engines(found)]),
        ],
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _platforms(found: Served) -> str:
    first = found.engines.platform
    later = found.decode.platform if found.decode else first
    if same(first, later):
        return first.name
    other = "another " if first.name == later.name else ""
    return f"{first.name} for prompts and {other}{later.name} for tokens"


def _deployment(found: Served) -> str:
    first = found.engines
    if found.decode is None:
        return f"{counted(first.count, 'engine')} of {counted(first.layout.gpus, 'GPU')}"
    return (
        f"{counted(first.count, 'engine')} of {counted(first.layout.gpus, 'GPU')} for prompts, "
        f"{found.decode.count} of {found.decode.layout.gpus} for tokens"
    )


def _facts(found: Served, limits: Limits, price: Price | None) -> Iterator[Fact]:
    per_gpu = found.output_rate / found.gpus
    yield Fact(
        "Output",
        f"{_few(found.output_rate)} tokens/s",
        f"{_few(per_gpu, 1)} for each GPU",
        main=True,
    )
    yield Fact("First token", _time(found.ttft.p50), f"median; p99 {_time(found.ttft.p99)}")
    yield Fact("Each token", _time(found.tpot.p50), f"median; p99 {_time(found.tpot.p99)}")
    yield Fact("Request", _time(found.latency.p50), f"median; p99 {_time(found.latency.p99)}")
    rate = len(found.answers) / found.span
    yield Fact("Requests", f"{rate:,.3g} a second", f"{number(len(found.answers))} in all")
    if limits.given:
        good = found.goodput(limits.ttft, limits.tpot)
        yield Fact("Goodput", f"{good:,.3g} a second", f"{share(good / rate)} keep: {limits.said}")
    if price is not None:
        dollars = cost(found, price, found.output_rate)
        yield Fact("Cost", f"${_few(dollars, 2)}", f"of a million output tokens at {price.said}")


def _few(value: float, places: int = 0) -> str:
    """A rate or a price: decimal places, or three significant digits of a small one."""
    return f"{value:,.{places}f}" if value >= 10 ** (2 - places) else f"{value:.3g}"


def _time(seconds: float) -> str:
    return time(seconds * NS_PER_S)


def _latency(found: Served) -> Table:
    def row(name: str, spread: Spread) -> tuple[str, ...]:
        return (name, *map(_time, (spread.mean, spread.p50, spread.p90, spread.p99, spread.most)))

    rows = [
        row("Time to first token", found.ttft),
        row("of it in the queue", found.queue),
        row("Time per output token", found.tpot),
        row("Inter-token latency", found.itl),
        row("Request", found.latency),
    ]
    return Table("Latency", ("", "mean", "p50", "p90", "p99", "largest"), rows)


def _steady(found: Served) -> Table:
    names = {"ttft": "Time to first token", "tpot": "Time per output token", "latency": "Request"}
    rows = [
        (names[name], number(each.warm_up), _time(each.mean), f"± {_time(each.half)}")
        for name, each in steady_means(found)
    ]
    note = "Means without the warm-up (MSER-5), with 95 % intervals by batch means."
    return Table("Means of the steady state", ("", "warm-up", "mean", "95 %"), rows, note)


def _uncertain(found: Served, within: Uncertain, price: Price | None) -> Table:
    tokens = outputs(found)
    drawn = {name: f"± {_time(each.half)}" for name, each in steady_means(found)}

    def row(name: str, value: float, ends: tuple[float, float], half: str = "") -> tuple[str, ...]:
        return (name, _time(value), *map(_time, ends), half)

    rows = [
        row(
            "Time to first token, mean", found.ttft.mean, within.ttft["mean"], drawn.get("ttft", "")
        ),
        row("p99", found.ttft.p99, within.ttft["p99"]),
        row(
            "Time per output token, mean",
            found.tpot.mean,
            within.tpot["mean"],
            drawn.get("tpot", ""),
        ),
        row("p99", found.tpot.p99, within.tpot["p99"]),
    ]
    rate = tuple(tokens * end for end in within.rate)
    rows.append(("Output tokens/s", *map(_few, (found.output_rate, *rate)), ""))
    if within.goodput is not None and within.kept is not None:
        ends = (within.kept, *within.goodput)
        rows.append(("Goodput, a second", *(f"{each:,.3g}" for each in ends), ""))
    if price is not None:
        dollars = [cost(found, price, each) for each in (found.output_rate, *reversed(rate))]
        rows.append(("Dollars of a million tokens", *(_few(each, 2) for each in dollars), ""))
    beyond = f" Extrapolated: {', '.join(within.extrapolated)}." if within.extrapolated else ""
    note = (
        f"{within.capacity.level:.0%} of measured runs should lie between low and high. From runs "
        f"on GPUs that no host time was fitted to.{beyond} The last column is of the drawn "
        "requests alone, after the warm-up."
    )
    heads = ("", "predicted", "low", "high", "drawn, 95 %")
    return Table("80 % intervals", heads, rows, note)


def _measured(found: Served) -> Table:
    names = {"ttft": "Time to first token", "latency": "Request"}
    rows = [
        (names[name], _time(seen), _time(ours), f"{ours / seen - 1:+.1%}")
        for name, seen, ours in measured(found)
    ]
    return Table("Means of the recording", ("", "measured", "simulated", "error"), rows)


def _parts(found: Served) -> Table:
    spent = sum(part.seconds for part in found.parts if not part.host)
    ordered = sorted(found.parts, key=lambda part: -part.seconds)
    rows = [
        (
            part.name + (" (host)" if part.host else ""),
            _time(part.seconds / found.steps),
            "" if part.host else share(part.seconds / spent),
        )
        for part in ordered
        if part.seconds
    ]
    note = f"Means over {number(found.steps)} steps of all engines, each part by itself."
    return Table("Parts of a step", ("part", "in a step", "share"), rows, note)


def _gain(each: Change) -> str:
    """By how much goodput changes; from nothing, what it becomes."""
    if each.before:
        return f"{each.goodput / each.before - 1:+.0%}"
    return f"0 to {each.goodput:,.3g} a second"


def _changes(changes: Sequence[Change], limits: Limits) -> Table:
    rows = [
        (
            each.said,
            number(each.served.gpus),
            _gain(each),
            f"{each.ttft - 1:+.0%}",
            f"{each.tpot - 1:+.0%}",
        )
        for each in changes
    ]
    what = "goodput" if limits.given else "requests/s"
    note = "Each change by itself, simulated with the same requests."
    return Table("Changes", ("change", "GPUs", what, "TTFT", "TPOT"), rows, note)


def _over_time(found: Served) -> Chart:
    engines = found.decode or found.engines
    blocks = engines.blocks * engines.layout.dp * engines.count
    records: list[dict[str, Any]] = []
    for at, running, waiting, _ in found.samples:
        records.append({"time": round(at, 6), "what": "running", "requests": running})
        records.append({"time": round(at, 6), "what": "waiting", "requests": waiting})
    peak = max((used for *_, used in found.samples), default=0)
    spec: dict[str, Any] = {
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "time", "type": "quantitative", "title": "time, s"},
            "y": {"field": "requests", "type": "quantitative", "title": "requests"},
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "scale": {"domain": ["running", "waiting"]},
            },
        },
    }
    note = f"In these states up to {share(peak / blocks)} of the cache is in use."
    return Chart("requests", "Requests in the engines", records, spec, note)


def _engines(found: Served) -> Table:
    kinds = [("prompts and tokens", found.engines)]
    if found.decode is not None:
        kinds = [("prompts", found.engines), ("tokens", found.decode)]
    heads = ("", *(name for name, _ in kinds))
    columns = [dict(_described(each)) for _, each in kinds]
    rows = [(key, *(column[key] for column in columns)) for key in columns[0]]
    return Table("Engines", heads, rows)


def _described(engines: Engines) -> Iterator[tuple[str, str]]:
    layout, held = engines.layout, engines.held
    yield "engine", f"{engines.engine.name} {engines.engine.file.version}"
    yield "platform", engines.platform.name
    yield "engines", number(engines.count)
    yield "tensor parallel", number(layout.tp)
    yield "pipeline stages", number(layout.pp)
    yield "attention data parallel", number(layout.dp)
    yield "expert parallel", number(layout.ep)
    yield "weights", f"{engines.precision.weights}, {size(held.weights)} on each GPU"
    yield "cache", f"{engines.precision.cache}, {size(held.token)} for each token on each GPU"
    yield "cache of a rank", f"{number(engines.blocks * engines.block)} tokens"
    yield "requests at a time", number(engines.sequences)
    yield "tokens of a step", number(engines.tokens)
