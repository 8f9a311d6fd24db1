"""Workloads, one operation after the other: products by shape, collectives and messages by bytes
and group, other kernels by kind.

    number = of all ranks: operations of a program times the ranks that run it

Two sides of a product may change places: an operand may be transposed. Here: numbers and the page.
Not here: times, which need a platform (`compare.py`)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import documents
from ..errors import InputError, Problem
from ..report.page import Brief, Page, Section, Table
from ..report.quantity import number, operations, size
from ..units import counted
from ..workload import Workload, load
from .explanation import Comparison

WORKLOADS = "armillary.workload-comparison/1"
_PRODUCTS = ("gemm", "grouped")
_ACCESSES = ("load", "store")
_ALLOWED = "two or more workloads, and nothing else"
_SHOWN = 20
_NAMED = 3
"""Kinds of kernels that the verdict names."""
_NUMBERS: dict[str, Callable[[int], str]] = {
    "count": number,
    "operations": operations,
    "bytes": size,
}
"""Numbers of kernels, and how each is written."""
_VISIBLE = 0.05
"""Per cent that one digit after the point shows."""
_Product = tuple[int, int, int, int, int]
"""Batch, smaller and larger side, depth, bytes of an element."""
_Call = tuple[str, int, int, int]
"""Kind, bytes, ranks of the group, and distance of the first two."""


@dataclass
class KernelSum:
    """Kernels of one kind, of all ranks."""

    count: int = 0
    operations: int = 0
    bytes: int = 0


@dataclass
class RanksWork:
    """Work of all ranks of a workload."""

    products: Counter[_Product] = field(default_factory=Counter)
    calls: Counter[_Call] = field(default_factory=Counter)
    kernels: dict[str, KernelSum] = field(default_factory=dict)


def work(workload: Workload) -> RanksWork:
    """The sums of a workload."""
    found = RanksWork()
    for _, ranks, kind, numbers, each in workload.amounts():
        count = each * ranks
        if kind in _PRODUCTS:
            batch, m, n, k, width = numbers
            found.products[batch, min(m, n), max(m, n), k, width] += count
        elif kind in _ACCESSES or len(numbers) == 2:
            known = found.kernels.setdefault(kind, KernelSum())
            known.count += count
            known.operations += count * (numbers[0] if len(numbers) == 2 else 0)
            known.bytes += count * numbers[-1]
        else:
            first, *members = numbers
            apart = members[1] - members[0] if len(members) > 1 else 0
            found.calls[kind, first, len(members), apart] += count
    return found


def compare_workloads(given: Sequence[object], called: Sequence[str]) -> Comparison:
    """The first workload next to each of the others; `called` are their names. Workloads may be
    folders that `Workload.write` made. Raises `InputError` for what is not a workload, and for
    fewer than two."""
    workloads = [_workload(each, name) for each, name in zip(given, called, strict=True)]
    if len(workloads) < 2:
        raise InputError([Problem(called[0], "compare", "one workload", _ALLOWED)])
    first, *others = map(work, workloads)
    base, *names = called
    pairs = [
        {"name": name, **_pair(first, other)} for name, other in zip(names, others, strict=True)
    ]
    warnings = [
        f"{name}: {counted(one.ranks, 'rank')}, but {counted(workloads[0].ranks, 'rank')} in {base}"
        for name, one in zip(names, workloads[1:], strict=True)
        if one.ranks != workloads[0].ranks
    ]
    data = {"schema": WORKLOADS, "base": base, "pairs": pairs, "warnings": warnings}
    sections = [section for pair in pairs for section in _sections(base, pair)]
    verdict = " ".join(_verdict(base, pair) for pair in pairs)
    title = f"{', '.join(names)} against {base}, operation by operation"
    return Comparison(Page(title, sections, verdict=verdict, warnings=warnings), data)


def _workload(given: object, name: str) -> Workload:
    if isinstance(given, str | os.PathLike) and documents.is_file(Path(given, "workload.json")):
        return load(given)
    if not isinstance(given, Workload):
        raise InputError([Problem(name, "compare", "is not a workload as others are", _ALLOWED)])
    return given


def _pair(a: RanksWork, b: RanksWork) -> dict[str, Any]:
    products = [
        {"batch": batch, "m": m, "n": n, "k": k, "width": width, "a": one, "b": two}
        for (batch, m, n, k, width), one, two in _rows(a.products, b.products)
    ]
    calls = [
        {"kind": kind, "bytes": each, "ranks": ranks, "distance": apart, "a": one, "b": two}
        for (kind, each, ranks, apart), one, two in _rows(a.calls, b.calls)
    ]
    empty = KernelSum()
    kernels = [
        {
            "kind": kind,
            **{f"a_{name}": value for name, value in vars(a.kernels.get(kind, empty)).items()},
            **{f"b_{name}": value for name, value in vars(b.kernels.get(kind, empty)).items()},
        }
        for kind in sorted({*a.kernels, *b.kernels})
    ]
    kernels.sort(key=lambda row: not _changed(row))
    return {"products": products, "collectives": calls, "kernels": kernels}


def _rows(a: Counter[Any], b: Counter[Any]) -> list[tuple[Any, int, int]]:
    """All keys with both numbers; those that differ first."""
    keys = sorted({*a, *b}, key=lambda key: (a[key] == b[key], key))
    return [(key, a[key], b[key]) for key in keys]


def _unequal(row: dict[str, Any]) -> bool:
    return bool(row["a"] != row["b"])


def _changed(kernel: dict[str, Any]) -> list[str]:
    """The numbers of a kind of kernels that differ."""
    return [name for name in _NUMBERS if kernel[f"a_{name}"] != kernel[f"b_{name}"]]


def _verdict(base: str, pair: dict[str, Any]) -> str:
    said = []
    for what in ("products", "collectives", "kernels"):
        rows = pair[what]
        different = _changed if what == "kernels" else _unequal
        differing = [row for row in rows if different(row)]
        called = "other kernels" if what == "kernels" else what
        kinds = counted(len(rows), "kind")
        if not rows:
            said.append(f"There are no {called}.")
        elif not differing:
            said.append(f"All {called} ({kinds}) are equal.")
        else:
            verb = "differs" if len(differing) == 1 else "differ"
            named = f": {_named(differing)}" if what == "kernels" else ""
            said.append(f"Of {kinds} of {called}, {len(differing):,} {verb}{named}.")
    return f"{pair['name']} against {base}: {' '.join(said)}"


def _named(kernels: Sequence[dict[str, Any]]) -> str:
    """Kinds that differ and by what, such as `attention (operations -76.6 %)`."""
    said = [
        f"{row['kind']} ({', '.join(f'{name} {_share(row, name)}' for name in _changed(row))})"
        for row in kernels[:_NAMED]
    ]
    more = len(kernels) - _NAMED
    return ", ".join([*said, f"{more:,} more"] if more > 0 else said)


def _share(kernel: dict[str, Any], name: str) -> str:
    """The change of a number; empty where it is equal."""
    one, two = kernel[f"a_{name}"], kernel[f"b_{name}"]
    if one == two:
        return ""
    if not one:
        return "from none"
    change = (two / one - 1) * 100
    return f"{change:+.1f} %" if abs(change) >= _VISIBLE else f"{two - one:+,}"


def _sections(base: str, pair: dict[str, Any]) -> list[Section]:
    heads = base, pair["name"], "Change"
    return [
        Section("Products", [_products(pair["products"], heads)]),
        Section("Collectives and messages", [_calls(pair["collectives"], heads)]),
        Section("Other kernels", [_kernels(pair["kernels"], heads)]),
    ]


def _products(rows: Sequence[dict[str, Any]], heads: tuple[str, str, str]) -> Table:
    cells = [
        (
            f"{row['batch']:,} x ({row['m']:,} x {row['k']:,}) ({row['k']:,} x {row['n']:,})",
            "4 bits" if not row["width"] else counted(row["width"], "byte"),
            *_counts(row),
        )
        for row in rows
    ]
    title = "Products of all ranks, those that differ first"
    return Table(title, ("Product", "Element", *heads), cells, labels=2, brief=Brief(rows=_SHOWN))


def _calls(rows: Sequence[dict[str, Any]], heads: tuple[str, str, str]) -> Table:
    cells = [(row["kind"], size(row["bytes"]), _group(row), *_counts(row)) for row in rows]
    title = "Collectives and messages of all ranks, those that differ first"
    names = ("Kind", "Bytes", "Group", *heads)
    return Table(title, names, cells, labels=3, brief=Brief(rows=_SHOWN))


def _group(row: dict[str, Any]) -> str:
    if row["kind"] == "send":
        return f"{row['distance']:+,} ranks"
    every = f", {row['distance']:,} apart" if abs(row["distance"]) > 1 else ""
    return counted(row["ranks"], "rank") + every


def _counts(row: dict[str, Any]) -> tuple[Any, Any, str]:
    change = row["b"] - row["a"]
    return number(row["a"]), number(row["b"]), f"{change:+,}" if change else ""


def _kernels(rows: Sequence[dict[str, Any]], heads: tuple[str, str, str]) -> Table:
    cells = []
    for row in rows:
        for name, text in _NUMBERS.items():
            one, two = row[f"a_{name}"], row[f"b_{name}"]
            if one or two:
                cells.append((row["kind"], name, text(one), text(two), _share(row, name)))
    names = ("Kind", "Number", *heads)
    title = "Other kernels of all ranks, those that differ first"
    return Table(title, names, cells, labels=2)
