"""Sharding plans as files: YAML, or JSON where the name ends in `.json`;
docs/models/sharding-plans.md.

A plan has one line for each table, so that two plans can be compared line by line:

    version: 1
    model: dlrm-mlperf
    ranks: 16
    ranks_per_node: 8
    tables:
    - {name: t0, rows: 40000000, columns: 128, scheme: row, ranks: 0-15}
    - {name: t1, rows: 39060, columns: 128, scheme: column, ranks: 3 7, sizes: 96 32}"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Literal

from .. import files
from ..declared import Allowed, Made, Source, Within, Wrong, open_source, read, shown
from ..documents import Path_
from ..units import counted
from .dlrm import MOST_ROWS, MOST_TABLES
from .limits import NPUS
from .sharding_plan import ShardingPlan, ShardScheme, TablePlan, Tier

VERSION = 1
"""Version of the format."""

MOST_SHARDS = 2**24
"""Shards of all tables together."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
_NUMBERS = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?( [0-9]{1,9}(-[0-9]{1,9})?)*")
_RANKS = "ranks such as 5, 0-7 or 3 8 16-23"


def write_plan(plan: ShardingPlan, path: str | os.PathLike[str]) -> None:
    """Writes a plan. Raises `InputError` where that can't be done."""
    files.write_text(path, as_file(plan, path))


def as_file(plan: ShardingPlan, path: str | os.PathLike[str]) -> str:
    """The text of a plan in a file of this name: JSON or YAML."""
    return as_json(plan) if Path(path).suffix == ".json" else as_yaml(plan)


def as_yaml(plan: ShardingPlan) -> str:
    """The plan as YAML, one line for each table."""
    rows = (
        "- {" + ", ".join(f"{key}: {_scalar(value)}" for key, value in row.items()) + "}"
        for row in map(_row, plan.tables)
    )
    head = (f"{key}: {_scalar(value)}" for key, value in _head(plan).items())
    title = "# The rank of each shard of each embedding table: docs/models/sharding-plans.md."
    return "\n".join((title, *head, "tables:", *rows, ""))


def as_json(plan: ShardingPlan) -> str:
    """The plan as JSON, one line for each table."""
    head = (f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in _head(plan).items())
    rows = ",\n".join("    " + json.dumps(_row(table)) for table in plan.tables)
    return "\n".join(("{", *head, '  "tables": [', rows, "  ]", "}", ""))


def _head(plan: ShardingPlan) -> dict[str, object]:
    return {
        "version": VERSION,
        "model": plan.model,
        "ranks": plan.ranks,
        "ranks_per_node": plan.ranks_per_node,
    }


def _row(table: TablePlan) -> dict[str, object]:
    row: dict[str, object] = {
        "name": table.name,
        "rows": table.rows,
        "columns": table.columns,
        "scheme": table.scheme,
        "ranks": _written(table.ranks),
    }
    if table.sizes is not None:
        row["sizes"] = " ".join(map(str, table.sizes))
    if table.tier != "device":
        row["tier"] = table.tier
    return row


def _scalar(value: object) -> str:
    """A value in YAML: plain where that is safe, quoted as in JSON elsewhere."""
    text = str(value)
    plain = isinstance(value, int) or _NUMBERS.fullmatch(text)
    if plain or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS):
        return text
    return json.dumps(text)


@cache
def _written(ranks: tuple[int, ...]) -> str:
    """Ranks with runs shortened: `3 8 16-23`."""
    runs = []
    for _, group in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0]):
        run = [rank for _, rank in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return " ".join(runs)


def read_plan(path: str | os.PathLike[str]) -> ShardingPlan:
    """The plan in a file. Raises `InputError` listing every problem with its line."""
    return _plan(open_source(path, "a sharding plan"))


def checked(plan: ShardingPlan) -> ShardingPlan:
    """A plan that was made in memory, held to what a file may say. Raises `InputError` listing
    every problem."""
    return _plan(Source(json.loads(as_json(plan)), ""))


def _name(raw: object) -> str:
    """A name, which may be a number."""
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise Wrong(f"{shown(raw)} is not a name")
    return str(raw)


def _runs(raw: object) -> tuple[range, ...]:
    """Runs of ranks, each from a lower to a higher one: a number, a text, or a list of them."""
    if not isinstance(raw, list):
        return _run(raw)
    if not raw:
        raise Wrong("an empty list")
    found: list[range] = []
    for index, each in enumerate(raw):
        try:
            found += _run(each)
        except Wrong as wrong:
            raise Wrong(wrong.message, wrong.allowed, index) from None
    return tuple(found)


def _run(raw: object) -> tuple[range, ...]:
    text = str(raw)
    if isinstance(raw, bool) or not isinstance(raw, (int, str)) or not _NUMBERS.fullmatch(text):
        raise Wrong(f"invalid ranks: {shown(raw)}")
    return _parsed(text)


@lru_cache(1024)
def _parsed(text: str) -> tuple[range, ...]:
    """The runs of a text such as `3 8 16-23`."""
    ends = [part.partition("-")[::2] for part in text.split()]
    runs = tuple(range(int(first), int(last or first) + 1) for first, last in ends)
    for run, (first, last) in zip(runs, ends, strict=True):
        if not run:
            raise Wrong(f"{first}-{last} runs backwards", "from a lower to a higher rank")
    return runs


@lru_cache(1024)
def _expanded(runs: tuple[range, ...]) -> tuple[int, ...]:
    """The ranks of some runs; equal ones are one object, for plans repeat them."""
    return tuple(chain.from_iterable(runs))


def _sizes(raw: object) -> tuple[int, ...]:
    """Lengths of shards: a list, or a text such as `96 32`."""
    parts = [str(each) for each in raw] if isinstance(raw, list) else str(raw).split()
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise Wrong(f"invalid sizes: {shown(raw)}")
    found = tuple(int(part) for part in parts if len(part) <= 20)
    if len(found) != len(parts) or not all(found):
        raise Wrong("a shard of no or too many rows or columns", "sizes from 1")
    return found


_Npus = Annotated[int, Within(1, NPUS)]


@dataclass(frozen=True, slots=True)
class _Table:
    name: Annotated[str, Made(_name)]
    rows: Annotated[int, Within(1, MOST_ROWS)]
    columns: Annotated[int, Within(1, MOST_TABLES)]
    scheme: ShardScheme
    ranks: Annotated[tuple[range, ...], Made(_runs), Allowed(_RANKS)]
    sizes: Annotated[tuple[int, ...], Made(_sizes), Allowed("sizes such as 96 32")] | None = None
    tier: Tier = "device"

    def __post_init__(self) -> None:
        many = sum(map(len, self.ranks))
        if self.scheme == "table" and many != 1:
            raise Wrong(f"a whole table on {many} ranks", "one rank", "ranks")
        cut = self.scheme in ("column", "row", "table_row")
        side = "column" if self.scheme == "column" else "row"
        extent = self.columns if self.scheme == "column" else self.rows
        if self.sizes is None:
            if cut and many > extent:
                said = f"{counted(many, 'shard')} of {counted(extent, side)}"
                raise Wrong(said, f"up to {counted(extent, 'rank')}", "ranks")
        elif not cut:
            raise Wrong(f"{self.scheme} does not cut a table", "no sizes", "sizes")
        elif len(self.sizes) != many:
            said = f"{counted(len(self.sizes), 'size')} for {counted(many, 'rank')}"
            raise Wrong(said, counted(many, "size"), "sizes")
        elif sum(self.sizes) != extent:
            said = f"{counted(sum(self.sizes), side)} in all, the table has {extent}"
            raise Wrong(said, f"sizes that add up to {extent}", "sizes")


@dataclass(frozen=True, slots=True)
class _Plan:
    version: Literal[1]
    model: Annotated[str, Made(_name)]
    ranks: _Npus
    ranks_per_node: _Npus
    tables: Annotated[
        tuple[_Table, ...], Within(1, MOST_TABLES), Allowed(f"1 to {MOST_TABLES} tables")
    ]


def _plan(source: Source) -> ShardingPlan:
    """The plan, once all of it is read."""
    found = read(_Plan, source)
    if found is not None:
        _fits(source, found)
    source.finish()
    assert found is not None
    tables = (
        TablePlan(
            each.name,
            each.rows,
            each.columns,
            each.scheme,
            _expanded(each.ranks),
            each.sizes,
            each.tier,
        )
        for each in found.tables
    )
    return ShardingPlan(found.model, found.ranks, found.ranks_per_node, tuple(tables))


def _fits(source: Source, plan: _Plan) -> None:
    """Refuses ranks that do not exist, a rank or a name that is given twice, too many shards."""
    if sum(len(run) for each in plan.tables for run in each.ranks) > MOST_SHARDS:
        source.fault(("tables",), "too many shards", f"up to {MOST_SHARDS} in all")
        return
    first: dict[str, int] = {}
    for index, table in enumerate(plan.tables):
        path: Path_ = ("tables", index)
        last = max(run[-1] for run in table.ranks)
        if last >= plan.ranks:
            source.fault((*path, "ranks"), f"rank {last} does not exist", f"0 to {plan.ranks - 1}")
        ranks = _expanded(table.ranks)
        if table.scheme != "column" and len(set(ranks)) < len(ranks):
            source.fault((*path, "ranks"), "a rank is given twice", "each rank once")
        if first.setdefault(table.name, index) != index and table.name:
            said = f"{table.name!r} is also the name of tables[{first[table.name]}]"
            source.fault((*path, "name"), said, "each table once")
