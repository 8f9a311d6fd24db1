"""`compare`: what moved between runs, by operation on the critical path, ranked, with causes.

Model: both critical paths sum to their step times, so the changes of their operations sum to the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, Problem
from ..report.page import Page, Section, Table
from ..report.quantity import counted, number, share, size, time
from ..schema import Collective, Report
from .causes import CAUSES, Key, Run, run, split
from .explanation import COMPARISON, Comparison
from .rows import detail, term, term_sum

_ROWS = 15
_REASONS = 3
_HALF_PS = 5e-4
_LEFT_OUT = ("name", "source", "summary", "programs", "groups")
"""Keys of a configuration that say nothing by themselves."""


@dataclass(frozen=True)
class Move:
    """How much of the difference one operation makes, ns, and why."""

    name: str
    kind: str
    a_ns: float
    b_ns: float
    causes: Mapping[str, float]

    @property
    def delta_ns(self) -> float:
        """The change."""
        return self.b_ns - self.a_ns

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "causes": dict(self.causes), "delta_ns": self.delta_ns}


def compare(reports: Sequence[Report], names: Sequence[str] | None = None) -> Comparison:
    """Compares the first report with each of the others; `names` are what they are called.

    Raises `InputError` for fewer than two reports and for one without detail.
    """
    called = list(names or [chr(65 + at % 26) for at in range(len(reports))])
    if len(reports) < 2 or len(called) != len(reports):
        message = f"{counted(len(reports), 'report')}, {counted(len(called), 'name')}: nothing to compare"
        raise InputError([Problem("", "compare", message, "two or more reports, a name for each")])
    runs = [run(report, name) for report, name in zip(reports, called, strict=True)]
    sections, pairs = [], []
    for other, name in zip(runs[1:], called[1:], strict=True):
        told, data = _pair(runs[0], other, called[0], name)
        sections += told
        pairs.append(data)
    others = counted(len(pairs), "other run")
    title = _title(pairs[0], *called[:2]) if len(pairs) == 1 else f"{called[0]} beside {others}"
    data = {"schema": COMPARISON, "version": reports[0]["version"], "base": called[0], "pairs": pairs}
    return Comparison(Page(title, sections), data)


def _pair(a: Run, b: Run, first: str, second: str) -> tuple[list[Section], dict[str, Any]]:
    moves = sorted(moved(a, b), key=lambda move: (-abs(move.delta_ns), move.name, move.kind))
    before, after = a.report["step_time_ns"], b.report["step_time_ns"]
    left = after - before - sum(move.delta_ns for move in moves)
    reasons = sorted(
        ((m, cause, ns) for m in moves for cause, ns in m.causes.items()), key=lambda found: -abs(found[2])
    )
    data = {
        "name": second,
        "a_step_ns": before,
        "b_step_ns": after,
        "delta_ns": after - before,
        "reasons": [_reason(b, *reason) for reason in reasons[:_REASONS]],
        "causes": by_cause(moves),
        "operations": [move.as_dict() for move in moves],
        "remainder_ns": left,
        "layers": _layers(a.report, b.report),
        "totals": _totals(a, b),
        "only_a": _only(a, b),
        "only_b": _only(b, a),
        "config": _differences(a.report["config"], b.report["config"]),
    }
    return _sections(a, b, data, moves, (first, second)), data


def _reason(b: Run, move: Move, cause: str, ns: float) -> dict[str, Any]:
    """One operation's change by one cause; of waits also what the other run waits for."""
    row = b.rows.get((move.name, move.kind)) if cause == "contention" else None
    behind = [part["name"] for part in row["behind"]] if row else []
    return {"name": move.name, "kind": move.kind, "cause": cause, "ns": ns, "behind": behind}


def moved(a: Run, b: Run) -> Iterator[Move]:
    """Every operation whose time on the critical path differs."""
    for key in dict.fromkeys([*a.path, *b.path]):
        before, after = (found.path[key]["ns"] if key in found.path else 0.0 for found in (a, b))
        if before != after or split(a, b, key):
            yield Move(key[0], key[1], before, after, split(a, b, key))


def by_cause(moves: Sequence[Move]) -> dict[str, float]:
    """The difference by cause, ns, largest first."""
    sums: dict[str, float] = {}
    for move in moves:
        for cause, ns in move.causes.items():
            sums[cause] = sums.get(cause, 0.0) + ns
    kept = ((cause, ns) for cause, ns in sums.items() if abs(ns) > _HALF_PS)
    return dict(sorted(kept, key=lambda found: -abs(found[1])))


def _layers(a: Report, b: Report) -> list[dict[str, Any]]:
    """Layers of the critical path whose time differs."""
    before, after = ({p["name"]: p["ns"] for p in detail(r)["critical_path"]["by_layer"]} for r in (a, b))
    rows = [(name, before.get(name, 0.0), after.get(name, 0.0)) for name in dict.fromkeys([*before, *after])]
    changed = sorted((row for row in rows if row[1] != row[2]), key=lambda row: -abs(row[2] - row[1]))
    return [{"layer": name, "a_ns": one, "b_ns": two, "delta_ns": two - one} for name, one, two in changed]


def _totals(a: Run, b: Run) -> list[dict[str, Any]]:
    """Operations over all ranks, on the critical path or not, whose time differs."""
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*a.durations, *b.durations]):
        (n, mean, _), (m, other, _) = (found.durations.get(key, (0, 0.0, 0.0)) for found in (a, b))
        if n * mean != m * other:
            rows.append(
                {"name": key[0], "kind": key[1], "a_ns": n * mean, "b_ns": m * other, "a_count": n, "b_count": m}
            )
    return sorted(rows, key=lambda row: -abs(row["b_ns"] - row["a_ns"]))


def _only(a: Run, b: Run) -> list[dict[str, str]]:
    """Operations of one run that the other does not have."""
    return [{"name": name, "kind": kind} for name, kind in a.durations if (name, kind) not in b.durations]


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keys of the configurations with different values."""
    one, two = dict(_flat(a)), dict(_flat(b))
    keys = [key for key in dict.fromkeys([*one, *two]) if one.get(key) != two.get(key)]
    return [
        {"key": key, "a": one.get(key), "b": two.get(key)} for key in keys if key.rpartition(".")[2] not in _LEFT_OUT
    ]


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if at in ("platform_file", "workload.summary"):
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{at}[{index}]")
    else:
        yield at, value


def _title(pair: Mapping[str, Any], first: str, second: str) -> str:
    delta, before = pair["delta_ns"], pair["a_step_ns"]
    if not delta:
        return f"{second} takes as long as {first}: {time(before)}"
    way = "longer" if delta > 0 else "less"
    percent = f" ({delta / before * 100:+.1f} %)" if before else ""
    new = time(pair["b_step_ns"])
    return f"{second} takes {time(abs(delta))} {way} than {first}: {new} instead of {time(before)}{percent}"


def _sections(a: Run, b: Run, data: Mapping[str, Any], moves: Sequence[Move], names: tuple[str, str]) -> list[Section]:
    told: list[str | Table] = (
        [_reasons(data)] if data["reasons"] else ["No operation on the critical path takes another time."]
    )
    told += _algorithms(a, b, moves, names)
    if moves:
        told += [_causes(data), _moves(moves, names)]
    if data["remainder_ns"] and abs(data["remainder_ns"]) > 1e-9 * data["a_step_ns"]:
        told.append(f"{_signed(data['remainder_ns'])} are of operations too small to be listed.")
    told += [_named("By layer of the critical path", data["layers"], names)] if data["layers"] else []
    for key, name in (("only_a", names[0]), ("only_b", names[1])):
        if data[key]:
            listed = ", ".join(f"{each['name']} ({each['kind']})" for each in data[key][:_ROWS])
            told.append(f"Only in {name}: {counted(len(data[key]), 'operation')}: {listed}.")
    parts: list[str | Table] = [_config(data["config"], names)] if data["config"] else ["None."]
    return [
        Section(f"From {names[0]} to {names[1]}: {_signed(data['delta_ns'])}", told),
        Section("Differences of the configurations", parts),
    ]


def _reasons(data: Mapping[str, Any]) -> str:
    def said(reason: Mapping[str, Any]) -> str:
        behind = f", behind {', '.join(reason['behind'])}" if reason["behind"] else ""
        return f"{_signed(reason['ns'])} {reason['cause']} in {reason['name']} ({reason['kind']}){behind}"

    return f"Most of it: {'; '.join(map(said, data['reasons']))}."


def _algorithms(a: Run, b: Run, moves: Sequence[Move], names: tuple[str, str]) -> Iterator[str]:
    """What another algorithm or model changes, in the words of the formula."""
    for move in moves[:_REASONS]:
        key: Key = (move.name, move.kind)
        if not {"algorithm", "network model"} & set(move.causes) or key not in a.rows or key not in b.rows:
            continue
        for found, name in zip((a, b), names, strict=True):
            yield f"{move.name} in {name}: {_formula(found.rows[key])}"


def _formula(row: Collective) -> str:
    how = ", ".join(dict.fromkeys(f"{phase['algorithm']} on {phase['name']}" for phase in row["phases"]))
    messages, moved = (sum(term(terms, key) for terms in row["terms"]) for key in ("messages", "bytes"))
    own, port = time(term_sum(row, "transfer_ns")), time(term_sum(row, "port_ns"))
    alpha = time(term_sum(row, "latency_ns", "endpoint_ns"))
    waits = time(term_sum(row, "contention_ns", "congestion_ns", "queue_ns"))
    of = size(moved / messages if messages else 0)
    return (
        f"{how}, {counted(row['chunks'], 'chunk')}: {messages:,.4g} messages of {of} wait for one another. Their bytes "
        f"take {own} on the links they cross, and {port} go by while other messages of the collective leave first; "
        f"latency and endpoints {alpha}, waits for others {waits}."
    )


def _causes(data: Mapping[str, Any]) -> Table:
    total = data["delta_ns"]
    rows = [
        (cause, CAUSES[cause], _signed(ns), share(ns / total) if total else "") for cause, ns in data["causes"].items()
    ]
    return Table("By cause", ("Cause", "What", "Change", "Share"), rows, labels=2)


def _moves(moves: Sequence[Move], names: tuple[str, str]) -> Table:
    rows = []
    for move in moves[:_ROWS]:
        causes = ", ".join(
            f"{cause} {_signed(ns)}" for cause, ns in sorted(move.causes.items(), key=lambda c: -abs(c[1]))
        )
        rows.append((move.name, move.kind, causes, time(move.a_ns), time(move.b_ns), _signed(move.delta_ns)))
    note = f"and {number(len(moves) - _ROWS)} more" if len(moves) > _ROWS else ""
    return Table("On the critical path", ("Operation", "Kind", "Why", *names, "Change"), rows, note, labels=3)


def _named(title: str, rows: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> Table:
    cells = [(row["layer"], time(row["a_ns"]), time(row["b_ns"]), _signed(row["delta_ns"])) for row in rows[:_ROWS]]
    return Table(title, ("Layer", *names, "Change"), cells)


def _config(rows: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> Table:
    cells = [(row["key"], str(row["a"]), str(row["b"])) for row in rows[:_ROWS]]
    note = f"and {number(len(rows) - _ROWS)} more" if len(rows) > _ROWS else ""
    return Table("Keys that differ", ("Key", *names), cells, note, labels=3)


def _signed(ns: float) -> str:
    return f"{'-' if ns < 0 else '+'}{time(abs(ns))}"
