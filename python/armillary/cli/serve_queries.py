"""`armillary serve` for recommendation models: queries in batches, on replicas of a platform."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import InputError, Problem, flag
from ..units import base
from . import output
from .options import settings

if TYPE_CHECKING:
    from ..model.files import Model
    from ..serve.queries import Answered
    from .serve_options import ServeOptions

_QUERIES = 10_000
"""Queries that are drawn unless the user says how many."""
_TAKEN = (
    "platform", "npus", "set_", "replicas", "rate", "num_requests", "arrival", "seed", "slo",
    "price", "backend", "json", "csv", "report", "query_samples", "batch_samples", "batch_window",
    "sharding", "tier", "cache", "skew", "table_precision", "host_inputs",
)  # fmt: skip
"""Options that mean something for queries."""
_PLACED = ("sharding", "tier", "cache", "skew", "table_precision", "host_inputs")
"""Those of the workload `dlrm`."""


def serve_queries(model: Model, each: ServeOptions, outputs: Mapping[str, str | None]) -> None:
    """Simulates queries to a recommendation model, and prints what they experience."""
    from ..report import serving_queries, words
    from ..report.chart import to_csv
    from ..serve.queries import as_dict, promise, table

    limit = _limit(each.slo)
    try:
        found, warnings = _answered(model, each)
    except InputError as error:
        raise InputError([_named(problem) for problem in error.problems]) from None
    kept = None if limit is None else promise(found, limit)
    for warning in warnings:
        output.log(f"warning: {warning}")
    document = as_dict(found, kept, warnings, each.price)
    whole = {
        "schema": document.pop("schema"), "version": __version__, "model": model.name,
        "platform": each.platform,
    }  # fmt: skip
    output.write_json(each.json, json_text.dumps({**whole, **document}, indent=2))
    if each.csv is not None:
        output.write_csv(each.csv, to_csv(table(found)))
    shown = serving_queries.page(found, model.name, each.platform, kept, each.price, warnings)
    if each.report is not None:
        output.write_page(each.report, shown.html())
    if "-" not in outputs.values():
        words.show(shown, output.console())


def _answered(model: Model, each: ServeOptions) -> tuple[Answered, list[str]]:
    """The result, and warnings."""
    from ..model.dlrm import parse
    from ..platform import Platform
    from ..report.quantity import rate
    from ..serve.load import lengths
    from ..serve.queries import Load, answer, grows
    from ..serve.recommender import batches

    _check(each)
    if each.rate is None:
        raise InputError([Problem("", "--rate", "queries come at a rate", "--rate 5000")])
    if not 1e-6 <= each.rate <= 1e9:
        message = f"invalid rate: {each.rate:g}"
        raise InputError([Problem("", "--rate", message, "0.000001 to 1000000000")])
    window = _window(each.batch_window)
    samples = lengths(each.query_samples or "1", "--query-samples")
    load = Load(each.rate, each.num_requests or _QUERIES, samples, each.arrival, each.seed)
    target = Platform.load(each.platform, settings(each.set_, each.npus))
    most = each.batch_samples or parse(model).local_batch
    words = {name: getattr(each, name) for name in _PLACED}
    made = batches(
        model, target, most, replicas=each.replicas, backend=each.backend,
        **{name: value for name, value in words.items() if value is not None},
    )  # fmt: skip
    found = answer(load, made, most=most, window=window, replicas=each.replicas)
    warnings = [*target.warnings, *made.warnings]
    if load.rate > found.capacity:
        warnings.append(
            f"{rate(load.rate)} queries a second are more than the {rate(found.capacity)} that can "
            "be answered: the queue grows, and latencies depend on the number of queries"
        )
    elif grows(found):
        warnings.append(
            "the last queries wait much longer than the first: the queue has not settled, and "
            "latencies depend on the number of queries (--num-requests)"
        )
    return found, warnings


def _check(each: ServeOptions) -> None:
    """Refuses options of engines for tokens."""
    given = [
        field.name
        for field in fields(each)
        if field.name not in _TAKEN and getattr(each, field.name) != field.default
    ]
    if given:
        why = "is for models that generate tokens"
        raise InputError([Problem("", flag(name), why, "leave it out") for name in given])
    if each.tier in (None, "device"):
        given = [name for name in ("cache", "skew") if getattr(each, name) is not None]
        why = "is for tables on the host, and all are on the NPUs"
        if given:
            help_ = "with --tier host, or without it"
            raise InputError([Problem("", flag(name), why, help_) for name in given])


def _named(problem: Problem) -> Problem:
    """A problem of an argument as one of its option."""
    is_option = not problem.file and problem.place in _TAKEN
    return replace(problem, place=flag(problem.place)) if is_option else problem


def _window(text: str | None) -> float:
    seconds = base(text) if text is not None else 0
    unit = text is None or text.endswith("s") or text == "0"
    if seconds is None or not unit or not 0 <= seconds <= 3600:
        help_ = "a time such as 2ms, up to 3600s"
        raise InputError([Problem("", "--batch-window", f"invalid time: {text!r}", help_)])
    return float(seconds)


def _limit(text: str | None) -> float | None:
    """Seconds of `latency=10ms`."""
    if text is None:
        return None
    name, _, value = text.partition("=")
    seconds = base(value.strip())
    if name.strip() != "latency" or seconds is None or not value.endswith("s") or seconds <= 0:
        raise InputError([Problem("", "--slo", f"invalid promise: {text!r}", "latency=10ms")])
    return float(seconds)
