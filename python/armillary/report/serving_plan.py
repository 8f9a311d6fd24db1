"""The page of the best deployments for a service level.

Here: what is shown. Not here: HTML (`page.py`), the search (`serve/search.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..units import NS_PER_S
from . import uncertain
from .chart import Chart
from .page import Fact, Page, Section, Table
from .quantity import number, share, time

if TYPE_CHECKING:
    from ..serve.measured_points import Measured
    from ..serve.search import Choice, Found

_MEASURED = "measured"
_NOTE = (
    "Each deployment was simulated from event to event: at the best load by the closed form, and "
    "with fewer requests until the service level held. A better one may be missing."
)
_FRONTIER = (
    "By the closed form, for the lengths of the requests. Each point is a layout with a number of "
    "requests at a time that no other layout beats in both quantities."
)


def page(
    found: Found, name: str, warnings: Sequence[str] = (), measured: Sequence[Measured] = ()
) -> Page:
    """The page of a search for deployments of the model `name`, with `measured` ones next to its
    frontier."""
    best = found.choices[0]
    return Page(
        title=f"Deployments of {name}",
        lead=_lead(found),
        verdict=f"The best is {best.candidate.said()} on {best.platform}: {_why(found)}."
        + uncertain.sentence(found.alike, "simulated deployment"),
        facts=list(_facts(best)),
        warnings=warnings,
        sections=[
            Section("Deployments", [_table(found), _NOTE]),
            Section(
                "Frontier",
                [
                    _chart(found, measured),
                    *([_next_to(found, measured)] if measured else []),
                ],
            ),
            *([Section("Left out", [_refused(found)])] if found.refused else []),
        ],
    )


def _lead(found: Found) -> str:
    limits = found.job.limits
    asked = limits.said or "no service level"
    rate = f", {found.job.rate:g} requests a second" if found.job.rate is not None else ""
    return (
        f"Service level: {asked}{rate}. {number(found.looked_at)} deployments and loads looked at."
    )


def _why(found: Found) -> str:
    """The best against the next one that is on another layout or platform."""
    best = found.choices[0]
    what = f"{best.tokens_per_gpu:,.0f} output tokens a second for each GPU"
    if len(found.choices) == 1:
        return what
    other = found.choices[1]
    ahead = best.tokens_per_gpu / other.tokens_per_gpu - 1
    if best.dollars is not None and other.dollars is not None:
        ahead = other.dollars / best.dollars - 1
    if ahead < 0.005:
        return f"{what}, as {other.candidate.said()} on {other.platform}"
    return f"{what}, {ahead:.0%} ahead of {other.candidate.said()} on {other.platform}"


def _facts(best: Choice) -> Iterator[Fact]:
    gpu = f"{best.tokens_per_gpu:,.1f} tokens/s"
    yield Fact("Output of a GPU", gpu, f"{number(best.gpus)} GPUs", main=True)
    yield Fact("Requests", f"{best.rate:,.3g} a second", f"{share(best.share)} within the limits")
    yield Fact("First token", _time(best.served.ttft.mean), "mean")
    yield Fact("Each token", _time(best.served.tpot.mean), "mean")
    if best.dollars is not None:
        yield Fact("Cost", f"${best.dollars:,.2f}", "of a million output tokens")


def _time(seconds: float) -> str:
    return time(seconds * NS_PER_S)


def _range(each: Choice) -> str:
    """The interval of the tokens of a GPU."""
    if each.within is None:
        return "unknown"
    return " to ".join(f"{end:,.4g}" for end in each.within[2].of(each.tokens_per_gpu))


def _table(found: Found) -> Table:
    priced = found.choices[0].dollars is not None
    heads = (
        "deployment",
        "platform",
        "GPUs",
        "requests/s",
        "tokens/s of a GPU",
        "80 %",
        "TTFT",
        "TPOT",
    )
    rows = []
    for each in found.choices:
        cells = [
            each.candidate.said(),
            each.platform,
            number(each.gpus),
            f"{each.rate:,.3g}",
            f"{each.tokens_per_gpu:,.1f}",
            _range(each),
            _time(each.served.ttft.mean),
            _time(each.served.tpot.mean),
        ]
        rows.append((*cells, f"${each.dollars:,.2f}") if priced else tuple(cells))
    return Table("Best deployments", (*heads, "a million tokens") if priced else heads, rows)


def _chart(found: Found, measured: Sequence[Measured]) -> Chart:
    records: list[dict[str, Any]] = [
        {
            "platform": each.platform,
            "layout": each.said,
            "requests": each.concurrency,
            "user": round(each.user, 6),
            "gpu": round(each.gpu, 6),
        }
        for each in found.frontier
    ]
    records += [
        {
            "platform": _MEASURED,
            "layout": each.name,
            "user": round(each.user, 6),
            "gpu": round(each.gpu, 6),
        }
        for each in measured
    ]
    ours = {"filter": f"datum.platform != '{_MEASURED}'"}
    theirs = {"filter": f"datum.platform == '{_MEASURED}'"}
    line = {"type": "line", "point": True}
    marks: dict[str, Any] = {"mark": line}
    if measured:
        marks = {
            "layer": [
                {"transform": [ours], "mark": line},
                {"transform": [theirs], "mark": {"type": "point", "shape": "cross", "size": 60}},
            ]
        }
    spec: dict[str, Any] = {
        **marks,
        "encoding": {
            "x": {"field": "user", "type": "quantitative", "title": "tokens/s of a user"},
            "y": {"field": "gpu", "type": "quantitative", "title": "output tokens/s of a GPU"},
            "color": {"field": "platform", "type": "nominal", "title": None},
            "tooltip": [
                {"field": "layout"},
                {"field": "requests", "title": "requests at a time"},
                {"field": "user", "title": "tokens/s of a user", "format": ".4~g"},
                {"field": "gpu", "title": "tokens/s of a GPU", "format": ".4~g"},
            ],
        },
    }
    return Chart("frontier", "Speed for users and output of GPUs", records, spec, _FRONTIER)


def _next_to(found: Found, measured: Sequence[Measured]) -> Table:
    """Points of the measured frontier, and ours that are as good in one quantity and best in the
    other."""
    rows, best = [], 0.0
    for each in sorted(measured, key=lambda each: (-each.user, -each.gpu)):
        if each.gpu <= best:
            continue
        best = each.gpu
        gpu = max((point.gpu for point in found.frontier if point.user >= each.user), default=None)
        user = max((point.user for point in found.frontier if point.gpu >= each.gpu), default=None)
        ours = _against(gpu, each.gpu), _against(user, each.user)
        rows.append((each.name, f"{each.user:,.4g}", f"{each.gpu:,.4g}", *ours))
    heads = ("measured", "of a user", "of a GPU", "ours, of a GPU", "ours, of a user")
    note = (
        "Output tokens a second of measured deployments that no other one beats in both. Ours: the "
        "most of a GPU where a user has as much, and the most of a user where a GPU has as much."
    )
    return Table("Measured deployments", heads, rows[::-1], note)


def _against(ours: float | None, measured: float) -> str:
    return "none" if ours is None else f"{ours:,.4g} ({ours / measured - 1:+.0%})"


def _refused(found: Found) -> Table:
    rows = [(reason, number(count)) for reason, count in sorted(found.refused.items())]
    return Table("Layouts that were left out", ("reason", "layouts"), rows)
