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
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from .. import documents, files
from ..errors import InputError, Problem
from ..units import counted
from .dlrm import MOST_ROWS, MOST_TABLES
from .fields import NPUS
from .sharding_plan import SHARD_SCHEMES, TIERS, ShardingPlan, TablePlan

VERSION = 1
"""Version of the format."""

MOST_SHARDS = 2**24
"""Shards of all tables together."""

_HEAD = ("version", "model", "ranks", "ranks_per_node", "tables")
_TABLE = ("name", "rows", "columns", "scheme", "ranks", "sizes", "tier")
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
    name = os.fspath(path)
    text = documents.read_text(path, "a sharding plan")
    if Path(name).suffix == ".json":
        return _Reader(name, {}).plan(documents.parse_json(text, name, "a sharding plan"))
    document = documents.parse_yaml(text, name, "a sharding plan")
    reader = _Reader(name, document.lines)
    for repeated, _ in document.repeated:
        reader.fault(repeated, "is given twice", "each key once")
    return reader.plan(document.value)


def checked(plan: ShardingPlan) -> ShardingPlan:
    """A plan that was made in memory, held to what a file may say. Raises `InputError` listing
    every problem."""
    return _Reader("", {}).plan(json.loads(as_json(plan)))


class _Reader:
    """One file and the problems found in it."""

    def __init__(self, file: str, lines: Mapping[documents.Path_, int]) -> None:
        self.file, self.lines = file, lines
        self.problems: list[Problem] = []
        self.known: dict[str | int, tuple[int, ...]] = {}
        self.shards = 0

    def fault(self, path: documents.Path_, message: str, allowed: str) -> None:
        """Keeps a problem at `path`."""
        place = documents.place(path, self.lines)
        self.problems.append(Problem(self.file, place, message, allowed))

    def plan(self, value: object) -> ShardingPlan:
        """The plan, once all of it is read."""
        if not isinstance(value, dict):
            raise InputError(
                [
                    Problem(
                        self.file, "", "is not a sharding plan", f"a mapping of {', '.join(_HEAD)}"
                    )
                ]
            )
        self.keys((), value, _HEAD, _HEAD)
        if value.get("version", VERSION) != VERSION:
            self.fault(("version",), f"unknown version {value['version']!r}", str(VERSION))
        ranks = self.count(("ranks",), value, NPUS)
        each = self.count(("ranks_per_node",), value, NPUS)
        model = self.text(("model",), value)
        listed = value.get("tables")
        if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_TABLES:
            self.fault(("tables",), "is not a list of tables", f"1 to {MOST_TABLES} tables")
            listed = []
        tables = [self.table(("tables", index), row, ranks) for index, row in enumerate(listed)]
        self.names(tables)
        if self.problems:
            raise InputError(self.problems)
        return ShardingPlan(model, ranks, each, tuple(tables))

    def table(self, path: documents.Path_, row: object, ranks: int) -> TablePlan:
        """One table; what can't be read of it is a problem."""
        if not isinstance(row, dict):
            self.fault(path, f"{_short(row)} is not a table", f"a mapping of {', '.join(_TABLE)}")
            row = {}
        else:
            self.keys(path, row, _TABLE, _TABLE[:5])
        found = TablePlan(
            self.text((*path, "name"), row),
            self.count((*path, "rows"), row, MOST_ROWS),
            self.count((*path, "columns"), row, MOST_TABLES),
            self.word((*path, "scheme"), row, SHARD_SCHEMES),
            self.numbers((*path, "ranks"), row, ranks),
            self.sizes((*path, "sizes"), row),
            self.word((*path, "tier"), row, TIERS) if "tier" in row else "device",
        )
        if len(self.problems) == 0:
            self.fits(path, found)
        return found

    def fits(self, path: documents.Path_, table: TablePlan) -> None:
        """Whether the parts of a table fit together."""
        many = len(table.ranks)
        if table.scheme == "table" and many != 1:
            self.fault((*path, "ranks"), f"a whole table on {many} ranks", "one rank")
        if table.scheme != "column" and len(set(table.ranks)) < many:
            self.fault((*path, "ranks"), "a rank is given twice", "each rank once")
        cut = table.scheme in ("column", "row", "table_row")
        if table.sizes is None:
            if cut and many > table.extent:
                said = f"{counted(many, 'shard')} of {counted(table.extent, _side(table))}"
                self.fault((*path, "ranks"), said, f"up to {counted(table.extent, 'rank')}")
        elif not cut:
            self.fault((*path, "sizes"), f"{table.scheme} does not cut a table", "no sizes")
        elif len(table.sizes) != many:
            said = f"{counted(len(table.sizes), 'size')} for {counted(many, 'rank')}"
            self.fault((*path, "sizes"), said, counted(many, "size"))
        elif sum(table.sizes) != table.extent:
            said = f"{counted(sum(table.sizes), _side(table))} in all, the table has {table.extent}"
            self.fault((*path, "sizes"), said, f"sizes that add up to {table.extent}")

    def names(self, tables: Sequence[TablePlan]) -> None:
        """Refuses two tables of one name."""
        first: dict[str, int] = {}
        for index, table in enumerate(tables):
            if first.setdefault(table.name, index) != index and table.name:
                said = f"{table.name!r} is also the name of tables[{first[table.name]}]"
                self.fault(("tables", index, "name"), said, "each table once")

    def keys(
        self,
        path: documents.Path_,
        values: Mapping[object, object],
        known: Sequence[str],
        needed: Sequence[str],
    ) -> None:
        """Refuses unknown keys and asks for those that are missing."""
        for key in values:
            if key not in known:
                self.fault((*path, str(key)), "unknown key", ", ".join(known))
        for key in needed:
            if key not in values:
                self.fault((*path, key), "is missing", ", ".join(known))

    def count(self, path: documents.Path_, values: Mapping[str, Any], most: int) -> int:
        """A whole number from 1."""
        value = values.get(str(path[-1]), 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self.fault(path, f"invalid count: {_short(value)}", f"a whole number from 1 to {most}")
            return 1
        return value

    def text(self, path: documents.Path_, values: Mapping[str, Any]) -> str:
        """A text."""
        value = values.get(str(path[-1]), "")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            self.fault(path, f"{_short(value)} is not a name", "a text")
        return str(value)

    def word(self, path: documents.Path_, values: Mapping[str, Any], allowed: Sequence[Any]) -> Any:  # noqa: ANN401
        """One of `allowed`."""
        value = values.get(str(path[-1]), allowed[0])
        if value in allowed:
            return value
        self.fault(path, f"unknown {path[-1]} {_short(value)}", ", ".join(allowed))
        return allowed[0]

    def numbers(
        self, path: documents.Path_, values: Mapping[str, Any], ranks: int
    ) -> tuple[int, ...]:
        """Ranks below `ranks`, each run from a lower to a higher one; a number, a text, or a list
        of them."""
        value = values.get(str(path[-1]), 0)
        if not isinstance(value, list):
            return self.run(path, value, ranks)
        if not value:
            self.fault(path, "an empty list", _RANKS)
        runs = (self.run((*path, index), each, ranks) for index, each in enumerate(value))
        return tuple(chain.from_iterable(runs))

    def run(self, path: documents.Path_, value: object, ranks: int) -> tuple[int, ...]:
        """The ranks that a number or a text stands for."""
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            self.fault(path, f"invalid ranks: {_short(value)}", _RANKS)
            return (0,)
        found = self.known.get(value)
        if found is None:
            before = len(self.problems)
            found = self.expanded(path, value, ranks)
            if len(self.problems) == before:
                self.known[value] = found
        self.shards += len(found)
        if self.shards > MOST_SHARDS:
            raise InputError(
                [Problem(self.file, "tables", "too many shards", f"up to {MOST_SHARDS} in all")]
            )
        return found

    def expanded(self, path: documents.Path_, value: str | int, ranks: int) -> tuple[int, ...]:
        """As `run`, of a value that was not read before."""
        text = str(value)
        if not _NUMBERS.fullmatch(text):
            self.fault(path, f"invalid ranks: {_short(value)}", _RANKS)
            return (0,)
        found: list[int] = []
        for part in text.split():
            first, _, last = part.partition("-")
            run = range(int(first), int(last or first) + 1)
            if not run or run[-1] >= ranks:
                said = f"{part} runs backwards" if not run else f"rank {run[-1]} does not exist"
                self.fault(path, said, f"0 to {ranks - 1}")
                return (0,)
            found.extend(run)
            if len(found) > MOST_SHARDS:
                self.fault(path, "too many shards", f"up to {MOST_SHARDS}")
                return (0,)
        return tuple(found)

    def sizes(self, path: documents.Path_, values: Mapping[str, Any]) -> tuple[int, ...] | None:
        """Lengths of shards, or nothing where they are even."""
        if str(path[-1]) not in values:
            return None
        value = values[str(path[-1])]
        parts = [str(each) for each in value] if isinstance(value, list) else str(value).split()
        if not parts or not all(part.isascii() and part.isdigit() for part in parts):
            self.fault(path, f"invalid sizes: {_short(value)}", "sizes such as 96 32")
            return None
        found = tuple(int(part) for part in parts if len(part) <= 20)
        if len(found) != len(parts) or not all(found):
            self.fault(path, "a shard of no or too many rows or columns", "sizes from 1")
            return None
        return found


def _side(table: TablePlan) -> str:
    return "column" if table.scheme == "column" else "row"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
