"""Page of a comparison: the headline, where the difference comes from, by cause, operation and
layer.

Here: words, tables and charts of what `compare.py` found. Not here: HTML (`report/page.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import flits, packets, path_layers
from ..report.page import Fact, Page, Part, Section, Table
from ..report.path_layers import Span
from ..report.plain_names import Named, words
from ..report.quantity import Quantity, configured, in_one_unit, number, share, size, time
from ..report.scale import Scale
from ..schema import Collective
from ..units import counted
from . import charts, throughput
from .causes import CAUSES, ComparedRun, Key, Move
from .rows import term, term_sum

_ROWS = 15
_REASONS = 3
_CAUSES = 2
_COUNTS = 0.005
"""Share of an operation's largest cause from which another one is named."""


@dataclass(frozen=True)
class Pair:
    """Two runs side by side: what changed, and the same as data."""

    a: ComparedRun
    b: ComparedRun
    names: tuple[str, str]
    moves: Sequence[Move]
    data: Mapping[str, Any]


def page(pairs: Sequence[Pair], warnings: Sequence[str] = ()) -> Page:
    """The page that compares one run with others."""
    first, alone = pairs[0], len(pairs) == 1
    sections = [
        section
        for at, pair in enumerate(pairs)
        for section in _sections(pair, "" if alone else f"-{at + 1}")
    ]
    unit = Scale.of(
        max(ns for pair in pairs for ns in (pair.data["a_step_ns"], pair.data["b_step_ns"]))
    )
    if alone:
        return Page(
            first.data["headline"],
            sections,
            verdict=_verdict(first.data),
            facts=_facts(first),
            warnings=warnings,
            unit=unit,
        )
    others = counted(len(pairs), "other run")
    parts = [Section("At a glance", [_glance(pairs)]), *sections]
    title = f"{first.names[0]} and {others}"
    return Page(title, parts, verdict=_fastest(pairs), warnings=warnings, unit=unit)


def _side_by_side(parts: Mapping[str, Any], names: tuple[str, str]) -> Table:
    """Each part of the step in both runs."""
    rows: list[tuple[str, ...]] = []
    for row in parts["rows"]:
        before, after = row["a_ns"], row["b_ns"]
        if before or after:
            ratio = f"{after / before:.2f}" if before else ""
            rows.append((row["part"], time(before), time(after), ratio))
    a, b = (sum(row[key] for row in parts["rows"]) for key in ("a_ns", "b_ns"))
    rows.append(("step", time(a), time(b), f"{b / a:.2f}" if a else ""))
    return Table("Parts of the step, mean over the ranks", ("Part", *names, "Ratio"), rows)


def _roofline(parts: Mapping[str, Any], names: tuple[str, str]) -> Iterator[Part]:
    """Shortest time that each resource allows: Eq. 1 of Neo, appendix B."""
    runs = [parts["a_roofline"], parts["b_roofline"]]
    yield " ".join(
        f"{name}: {run['binding']} needs most of the step."
        for name, run in zip(names, runs, strict=True)
    )
    rows = []
    for pair in zip(*(run["resources"] for run in runs), strict=True):
        rates = [each["samples_per_second"] for each in pair]
        times = [time(each["time_ns"]) for each in pair]
        rows.append((pair[0]["name"], *times, *(throughput.rate(r) if r else "" for r in rates)))
    whole = [run["samples_per_second"] for run in runs]
    steps = [time(run["step_ns"]) for run in runs]
    rows.append(("Eq. 1", *steps, *(throughput.rate(r) if r else "" for r in whole)))
    heads = ("Resource", *names, *(f"Samples/s, {name}" for name in names))
    yield Table("Time that each resource needs", heads, rows)


def _verdict(data: Mapping[str, Any]) -> str:
    """The largest part of the difference, in one sentence."""
    found = list(data["causes"].items())
    if not found:
        return "No operation on the critical path changes its time."
    named = [(f"{cause} ({CAUSES[cause].partition(':')[0]})", ns) for cause, ns in found[:_CAUSES]]
    rest = data["delta_ns"] - sum(ns for _, ns in named)
    if len(found) > _CAUSES:
        named.append(("other causes", rest))
    times = in_one_unit([_signed(data["delta_ns"]), *(_signed(ns) for _, ns in named)])
    most = [f"{ns} {cause}" for (cause, _), ns in zip(named, times[1:], strict=True)]
    near = (
        " The difference lies within what such predictions are off by."
        if data["within_interval"]
        else ""
    )
    return f"The step changes by {times[0]}: {', '.join(most)}.{near}"


def _fastest(pairs: Sequence[Pair]) -> str:
    """Which of all runs is the fastest."""
    base = throughput.of(pairs[0].a.report)
    found = [
        (base, pairs[0].names[0]),
        *((throughput.of(pair.b.report), pair.names[1]) for pair in pairs),
    ]
    units = {throughput.unit(one, two) for one, _ in found for two, _ in found}
    unit = next((each for each in ("token", "sample") if each in units), "step")
    if unit != "step" and not all(
        each.samples and (unit == "sample" or each.tokens) for each, _ in found
    ):
        return ""
    best, name = min(found, key=lambda each: each[0].ns(unit))
    per = f" per {unit}" if unit != "step" else ""
    return f"{name} is the fastest{per}: {time(best.ns(unit))}."


def _glance(pairs: Sequence[Pair]) -> Table:
    """One row for each run."""
    runs = [(pairs[0].names[0], throughput.of(pairs[0].a.report))]
    runs += [(pair.names[1], throughput.of(pair.b.report)) for pair in pairs]
    rows = []
    for name, found in runs:
        rates = [
            throughput.rate(found.a_second(unit)) if count else "" for unit, count in found.counts()
        ]
        rows.append((name, time(found.step_ns), *rates, number(found.npus)))
    return Table("Runs", ("Run", "Step time", "Samples/s", "Tokens/s", "NPUs"), rows)


def _facts(pair: Pair) -> list[Fact]:
    one, two = throughput.of(pair.a.report), throughput.of(pair.b.report)
    unit = throughput.unit(one, two)
    facts = [Fact("Step time", time(two.step_ns), f"instead of {time(one.step_ns)}")]
    for name, count in two.counts():
        if count and dict(one.counts())[name]:
            before, after = throughput.rate(one.a_second(name)), throughput.rate(two.a_second(name))
            facts.append(Fact(f"{name.capitalize()}s/s", after, f"instead of {before}"))
    if unit != "step":
        facts.append(
            Fact(f"Time of a {unit}", time(two.ns(unit)), f"instead of {time(one.ns(unit))}")
        )
    if one.utilisation and two.utilisation:
        facts.append(Fact("MFU", share(two.utilisation), f"instead of {share(one.utilisation)}"))
    return facts


def _sections(pair: Pair, suffix: str) -> list[Section]:
    """`suffix` makes the names of charts unique."""
    data, names = pair.data, pair.names
    one, two = throughput.of(pair.a.report), throughput.of(pair.b.report)
    parts: list[Part] = [] if not suffix else [f"{data['headline']}."]
    parts += list(throughput.notes(one, two, names))
    parts += [_reasons(data)]
    parts += (
        [throughput.table(one, two, names)]
        if data["unit"] != "step" or one.npus != two.npus
        else []
    )
    if pair.moves:
        parts += [charts.waterfall(data, names, suffix), _causes(data)]
    found = [Section(f"From {names[0]} to {names[1]}: {_signed(data['delta_ns'])}", parts)]
    if data["parts"]:
        found.append(Section("Side by side", [_side_by_side(data["parts"], names)]))
        found.append(Section("Roofline", list(_roofline(data["parts"], names))))
    if pair.moves:
        found.append(Section("By operation", list(_operations(pair, suffix))))
    spans = path_layers.merged(path_layers.changes(pair.a.report, pair.b.report))
    if any(span.delta_ns for span in spans):
        by_layer: list[Part] = [charts.layers(spans, suffix), _layers(spans, names)]
        found.append(Section("By layer", by_layer))
    for title, section in (("Packets", packets), ("Flits", flits)):
        if rows := data[title.lower()]:
            found.append(Section(title, [_both(title, section.TOTALS, rows, names)]))
    keys: list[Part] = [_config(data["config"], names)] if data["config"] else ["None."]
    return [*found, Section("Differences of the configurations", keys)]


def _operations(pair: Pair, suffix: str) -> Iterator[Part]:
    data = pair.data
    yield from _algorithms(pair.a, pair.b, pair.moves, pair.names)
    yield charts.operations(pair.moves[:_ROWS], suffix)
    yield _moves(pair.moves, pair.names)
    if data["remainder_ns"] and abs(data["remainder_ns"]) > 1e-9 * data["a_step_ns"]:
        yield f"{_signed(data['remainder_ns'])} come from operations too small to be listed."
    for key, name in (("only_a", pair.names[0]), ("only_b", pair.names[1])):
        if data[key]:
            listed = ", ".join(
                f"{words(each['name'])} ({each['kind']})" for each in data[key][:_ROWS]
            )
            yield f"Only in {name}: {counted(len(data[key]), 'operation')}: {listed}."


def _reasons(data: Mapping[str, Any]) -> str:
    times = in_one_unit([_signed(reason["ns"]) for reason in data["reasons"]])

    def said(reason: Mapping[str, Any], ns: str) -> str:
        names = ", ".join(map(words, reason["behind"]))
        behind = f", behind {names}" if names else ""
        return f"{ns} {reason['cause']} in {words(reason['name'])} ({reason['kind']}){behind}"

    if not data["reasons"]:
        return "No operation on the critical path changes its time."
    return f"Most of it: {'; '.join(map(said, data['reasons'], times))}."


def _algorithms(
    a: ComparedRun, b: ComparedRun, moves: Sequence[Move], names: tuple[str, str]
) -> Iterator[str]:
    """Effects of another algorithm or network model, in the words of the formula."""
    for move in moves[:_REASONS]:
        key: Key = (move.name, move.kind)
        if (
            not {"algorithm", "network model"} & set(move.causes)
            or key not in a.rows
            or key not in b.rows
        ):
            continue
        for found, name in zip((a, b), names, strict=True):
            said = words(move.name)
            yield f"{said[:1].upper()}{said[1:]} in {name}: {_formula(found.rows[key])}"


def _formula(row: Collective) -> str:
    how = ", ".join(
        dict.fromkeys(f"{phase['algorithm']} on {phase['name']}" for phase in row["phases"])
    )
    messages, moved = (
        sum(term(terms, key) for terms in row["terms"]) for key in ("messages", "bytes")
    )
    own, port = time(term_sum(row, "transfer_ns")), time(term_sum(row, "port_ns"))
    alpha = time(term_sum(row, "latency_ns", "endpoint_ns"))
    waits = time(term_sum(row, "contention_ns", "congestion_ns", "queue_ns"))
    of = size(moved / messages if messages else 0)
    return (
        f"{how}, {counted(row['chunks'], 'chunk')}: {messages:,.4g} messages of {of} follow one "
        f"another. Their bytes take {own} on the links they cross. They wait {port} while other "
        f"messages of the collective leave first. Latency and endpoints take {alpha}, waits for "
        f"others {waits}."
    )


def _causes(data: Mapping[str, Any]) -> Table:
    total = data["delta_ns"]
    rows = [
        (cause, CAUSES[cause], _signed(ns), share(ns / total) if total else "")
        for cause, ns in data["causes"].items()
    ]
    return Table("By cause", ("Cause", "What", "Change", "Share"), rows, labels=2)


def _moves(moves: Sequence[Move], names: tuple[str, str]) -> Table:
    rows = []
    whys = _whys(moves[:_ROWS])
    for move, causes in zip(moves, whys, strict=False):
        rows.append(
            (
                Named(move.name),
                move.kind,
                causes,
                time(move.a_ns),
                time(move.b_ns),
                _signed(move.delta_ns),
            )
        )
    note = f"and {number(len(moves) - _ROWS)} more" if len(moves) > _ROWS else ""
    return Table(
        "On the critical path", ("Operation", "Kind", "Why", *names, "Change"), rows, note, labels=3
    )


def _whys(moves: Sequence[Move]) -> list[str]:
    """Causes of each change, the largest first, all in one unit; without what hardly counts."""
    kept: list[list[tuple[str, float]]] = []
    for move in moves:
        causes = sorted(move.causes.items(), key=lambda cause: -abs(cause[1]))
        kept.append([(name, ns) for name, ns in causes if abs(ns) >= _COUNTS * abs(causes[0][1])])
    said = iter(in_one_unit([_signed(ns) for causes in kept for _, ns in causes]))
    return [", ".join(f"{name} {next(said)}" for name, _ in causes) for causes in kept]


def _layers(spans: Sequence[Span], names: tuple[str, str]) -> Table:
    rows = [
        (
            span.name,
            number(span.count),
            time(span.a_ns),
            time(span.b_ns),
            _signed(span.delta_ns),
            _each(span),
        )
        for span in spans
    ]
    return Table("Layers of the critical path", ("Layer", "Number", *names, "Change", "Each"), rows)


def _each(span: Span) -> str:
    return _signed(span.delta_ns / span.count)


def _both(
    title: str,
    known: Mapping[str, tuple[str, Callable[[Any], str]]],
    rows: Mapping[str, Any],
    names: tuple[str, str],
) -> Table:
    def shown(field: str, value: float | None) -> str:
        return "" if value is None else known[field][1](value)

    cells = [
        (known[field][0], shown(field, row["a"]), shown(field, row["b"]))
        for field, row in rows.items()
    ]
    return Table(f"What {title.lower()} have been through", ("What", *names), cells)


def _config(rows: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> Table:
    cells = [
        (row["key"], *(configured(row["key"], row[each]) for each in "ab")) for row in rows[:_ROWS]
    ]
    note = f"and {number(len(rows) - _ROWS)} more" if len(rows) > _ROWS else ""
    return Table("Keys that differ", ("Key", *names), cells, note, labels=3)


def _signed(ns: float) -> str:
    return Quantity(f"{'-' if ns < 0 else '+'}{time(abs(ns))}" if ns else "0", ns)
