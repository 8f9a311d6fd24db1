"""Which operation of a report is meant, and its row in the detail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import cast

from ..errors import InputError, Problem
from ..schema import Collective, CollectiveTerms, Detail, Report

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
LAUNCH = "launch"
"""Kind of a wait for a host's launch on the critical path."""


def pattern(name: str) -> str:
    """A name with a star for each number in it, as the detail has them."""
    return re.sub("[0-9]+", "*", name)


def detail(report: Report, what: str = "") -> Detail:
    """The detail of a report. Raises `InputError` for a report without."""
    found = report["detail"]
    if found is None or "collectives" not in found:
        message = "the report has no detail, which tells what the time is made of"
        raise InputError([Problem(what, "detail", message, "armillary run --json, or simulate(..., detail=True)")])
    return found


def term_sum(row: Collective, *names: str) -> float:
    """Sum of terms over the dimensions, ns; of all of them when none is named."""
    return sum(term(terms, name) for terms in row["terms"] for name in names or TERMS)


def term(terms: CollectiveTerms, name: str) -> float:
    """One term, ns."""
    return cast(Mapping[str, float], terms)[name]


def find(report: Report, node: str) -> list[Collective]:
    """Rows that `node` means: an id, `rank:id`, a name, a kind, or a pattern of names with `*`; longest in all first.

    Empty when no collective or send is meant. Raises `InputError` for a rank that is not there.
    """
    rows = detail(report)["collectives"]
    rank, colon, rest = node.rpartition(":")
    if colon and rank.isdecimal() and int(rank) >= report["ranks"]:
        allowed = f"0 to {report['ranks'] - 1}"
        raise InputError([Problem("", f"node {node}", f"there is no rank {rank}", allowed)])
    wanted = rest if colon and rank.isdecimal() else node
    if wanted.isdecimal():
        return [row for row in rows if int(wanted) in row["nodes"]]
    exact = [row for row in rows if wanted in (row["name"], row["kind"]) or pattern(wanted) == row["name"]]
    return exact or [row for row in rows if fnmatchcase(row["name"], wanted)]


def unknown(report: Report, node: str) -> InputError:
    """Nothing in the report is called `node`: the nearest names that are."""
    rows, operations = detail(report)["collectives"], report["operations"]
    names = list(dict.fromkeys([*(row["name"] for row in rows), *(operation["name"] for operation in operations)]))
    near = get_close_matches(node, names, 5, 0.3) or names[:5]
    return InputError(
        [Problem("", f"node {node}", "is no operation of the report", ", ".join(near) or "a workload with operations")]
    )
