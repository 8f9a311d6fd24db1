"""Finds the operation of a report that a name means, and its row in the detail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import cast

from ..errors import InputError, Problem
from ..estimate.report_detail import detail
from ..schema import Collective, CollectiveTerms, Report

TERMS = {
    "latency_ns": "latency",
    "transfer_ns": "bytes",
    "port_ns": "own messages ahead",
    "endpoint_ns": "endpoint delay",
    "reduction_ns": "reduction",
    "contention_ns": "other operations' messages ahead",
    "congestion_ns": "congestion in the network",
    "queue_ns": "queue behind other operations",
    "algorithm_ns": "algorithm from a file",
}
"""Terms of a collective's time, as the detail has them, and their names."""
_CHOSEN = ("scheduler", "collectives", "hierarchy", "library")
LAUNCH = "launch"
"""Kind of a wait for a host's launch on the critical path."""
_SUGGESTIONS = 5
_NUMBER = re.compile("[0-9]{1,18}")


def pattern(name: str) -> str:
    """A name with a star for each number in it, as the detail has them."""
    return re.sub("[0-9]+", "*", name)


def require_choices(report: Report, what: str = "") -> None:
    """Refuses a report that does not say what its platform chose: terms and changes depend on
    it."""
    if missing := unsaid(report):
        message = f"the report does not say which {' and '.join(missing)} the platform has"
        allowed = "a report that armillary run --json of this version wrote"
        raise InputError([Problem(what, "config.platform", message, allowed)])


def unsaid(report: Report) -> list[str]:
    """Choices of the platform that a report does not record."""
    return [key for key in _CHOSEN if key not in report["config"]["platform"]]


def term_sum(row: Collective, *names: str) -> float:
    """Sum of terms over the dimensions, ns; of all of them when none is named."""
    return sum(term(terms, name) for terms in row["terms"] for name in names or TERMS)


def term(terms: CollectiveTerms, name: str) -> float:
    """One term, ns."""
    return cast(Mapping[str, float], terms)[name]


def find(report: Report, node: str) -> list[Collective]:
    """Rows that `node` means: an id, `rank:id`, a name, a kind, or a pattern of names with `*`;
    longest in all first.

    Empty when no collective or send is meant. Raises `InputError` for a rank that is not there.
    """
    rows = detail(report)["collectives"]
    rank, colon, rest = node.rpartition(":")
    if colon and _NUMBER.fullmatch(rank) and int(rank) >= report["ranks"]:
        allowed = f"0 to {report['ranks'] - 1}"
        raise InputError([Problem("", f"node {node}", f"there is no rank {rank}", allowed)])
    wanted = rest if colon and _NUMBER.fullmatch(rank) else node
    if _NUMBER.fullmatch(wanted):
        return [row for row in rows if int(wanted) in row["nodes"]]
    exact = [
        row
        for row in rows
        if wanted in (row["name"], row["kind"]) or pattern(wanted) == row["name"]
    ]
    return exact or [row for row in rows if fnmatchcase(row["name"], wanted)]


def operations(report: Report, node: str) -> list[str]:
    """Names, as the detail has them, of operations on the critical path or in the list of
    operations that `node` means.

    `node` is an id, `rank:id`, a name, a kind, or a pattern of names with `*`.
    """
    path = detail(report)["critical_path"]
    rank, colon, rest = node.rpartition(":")
    by_id = [
        s["name"]
        for s in path["segments"]
        if rest == str(s["node"]) and (not colon or rank == str(s["rank"]))
    ]
    if by_id:
        return list(dict.fromkeys(map(pattern, by_id)))
    there = [*((each["name"], each["kind"]) for each in path["by_operation"])]
    there += [(each["name"], each["kind"]) for each in report["operations"]]
    exact = [name for name, kind in there if node in (name, kind) or pattern(node) == pattern(name)]
    found = exact or [
        name for name, _ in there if fnmatchcase(name, node) or fnmatchcase(pattern(name), node)
    ]
    return list(dict.fromkeys(map(pattern, found)))


def unknown(report: Report, node: str) -> InputError:
    """The error for a `node` that is not in the report, with the nearest names."""
    found = detail(report)
    rows = [*found["collectives"], *found["critical_path"]["by_operation"], *report["operations"]]
    names = list(dict.fromkeys(pattern(row["name"]) for row in rows))
    near = _near(pattern(node), names)
    allowed = ", ".join(near) or "a workload with operations"
    return InputError([Problem("", f"node {node}", "is not an operation of the report", allowed)])


def _near(wanted: str, names: list[str]) -> list[str]:
    """Names that share most words with the one that is wanted, then those spelled most like it."""
    words = set(_words(wanted))
    shared = {name: len(words.intersection(_words(name))) for name in names}
    sharing = sorted((name for name in names if shared[name]), key=lambda name: -shared[name])
    return list(dict.fromkeys([*sharing, *get_close_matches(wanted, names, _SUGGESTIONS, 0.0)]))[
        :_SUGGESTIONS
    ]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^A-Za-z]+", name.lower()) if len(word) > 2]
