"""SQLite databases that other programs wrote, read as hostile files.

Here: opening, which tables there are, rows with checked types, and every limit. Not here: what a
table means (`nsys.py`). A file is opened read-only and as immutable, so that no other file is
touched. It can run nothing: views, triggers and virtual tables are never read, computed columns
count as missing, the schema is not trusted, no other database can be attached, and a statement may
only select. Work is bounded by the size of the file, the length of a value by a constant. Source:
"Defense Against The Dark Arts" (sqlite.org/security.html)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, Problem

MAGIC = b"SQLite format 3\0"
_LONGEST = 2**24
"""Bytes of a value."""
_NAMED = 65_536
"""Characters of a text that are read."""
_EACH = 10_000
"""Instructions of SQLite's machine between two looks at the work."""
_ALWAYS, _BYTE = 5_000_000, 20
"""Instructions that any database may take, and that each of its bytes may. A row has at least eight
bytes, and takes two instructions and two more for each column that is read."""
_TABLES = 10_000
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 65_536),
    (sqlite3.SQLITE_LIMIT_COLUMN, 500),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 3),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 25_000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 8),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 10),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_FUNCTIONS = frozenset({"substr"})
_WHOLE = "the database as it was written"


@dataclass(frozen=True)
class Column:
    """A column by its name: whole numbers (`int`), text (`str`) or bytes (`bytes`). One that is not
    `needed` may be missing, or NULL."""

    name: str
    kind: type = int
    needed: bool = True


class Database:
    """An open database; `file` is its name in messages. Raises `InputError` for all that is wrong
    with it."""

    def __init__(self, file: str, source: Path | bytes) -> None:
        self.file = file
        self._left = 0
        with self._checked("its schema"):
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            self._left = (_ALWAYS + _BYTE * size) // _EACH
            self._connection = _connect(source)
            self._connection.set_progress_handler(self._tick, _EACH)
            self.tables = self._schema()

    def _tick(self) -> bool:
        self._left -= 1
        return self._left < 0

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _schema(self) -> dict[str, frozenset[str]]:
        """Plain tables, and the columns that are stored in them."""
        found: dict[str, frozenset[str]] = {}
        rows = self._connection.execute("SELECT type, name, substr(sql, 1, 40) FROM sqlite_master")
        for number, (kind, name, sql) in enumerate(rows):
            if number >= _TABLES:
                said = f"has more than {_TABLES:,} tables and indices"
                raise InputError([Problem(self.file, "", said, _WHOLE)])
            is_plain = isinstance(sql, str) and sql.upper().split()[:2] == ["CREATE", "TABLE"]
            if kind == "table" and is_plain and isinstance(name, str):
                found[name] = frozenset()
        return found

    def columns(self, table: str) -> frozenset[str]:
        """The stored columns of a table; empty where there is no such table."""
        if table not in self.tables:
            return frozenset()
        if not self.tables[table]:
            with self._checked(table):
                # Computed columns are not in this list.
                rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
                self.tables[table] = frozenset(str(row[1]) for row in rows)
        return self.tables[table]

    def rows(
        self, table: str, columns: Sequence[Column], given: Column | None = None, value: int = 0
    ) -> Iterator[tuple[Any, ...]]:
        """Values of the columns, row by row as they are stored; None where a column is missing or
        NULL. `given` is a column that must have `value`. No row where there is no such table."""
        stored = self.columns(table)
        if not stored:
            return
        lacking = [each.name for each in columns if each.needed and each.name not in stored]
        if lacking:
            said = f"the table has no column {', '.join(lacking)}"
            raise InputError([Problem(self.file, table, said, _WHOLE)])
        wanted = ", ".join(_expression(each, stored) for each in columns)
        where = f" WHERE {_quoted(given.name)} = ?" if given else ""
        text = f"SELECT {wanted} FROM {_quoted(table)}{where}"
        with self._checked(table):
            for row in self._connection.execute(text, (value,) if given else ()):
                for each, found in zip(columns, row, strict=True):
                    if type(found) is not each.kind and (found is not None or each.needed):
                        raise InputError([self._wrong(table, each, found)])
                yield row

    def _wrong(self, table: str, column: Column, found: object) -> Problem:
        words = {int: "a whole number", str: "text", bytes: "bytes", float: "a fraction"}
        what = words.get(type(found), "nothing")
        said = f"a value of column {column.name} is {what}"
        return Problem(self.file, table, said, words[column.kind])

    @contextmanager
    def _checked(self, table: str) -> Iterator[None]:
        """Turns what SQLite finds wrong into a problem."""
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, OSError, OverflowError) as error:
            said = f"can't be read: {error}"
        except UnicodeDecodeError:
            # SQLite's message has a name of the database in it, which may be any bytes.
            said = "can't be read: a name in it is not UTF-8"
        else:
            return
        if self._left < 0:
            said = "takes more work than a database of its size can need"
        raise InputError([Problem(self.file, table, said, _WHOLE)])


def _connect(source: Path | bytes) -> sqlite3.Connection:
    if isinstance(source, bytes):
        connection = sqlite3.connect(":memory:")
        connection.deserialize(source)
    else:
        uri = f"{source.resolve().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True)
    connection.text_factory = _text
    for limit, most in _LIMITS:
        connection.setlimit(limit, most)
    for setting in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "query_only=ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.set_authorizer(_authorize)
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_known = action == sqlite3.SQLITE_PRAGMA and first == "table_info"
    is_known |= action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED or is_known else sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _expression(column: Column, stored: frozenset[str]) -> str:
    """A column as it is selected: long texts are cut, and bytes stored as text are bytes."""
    if column.name not in stored:
        return "NULL"
    name = _quoted(column.name)
    if column.kind is str:
        return f"substr({name}, 1, {_NAMED})"
    return f"CAST({name} AS BLOB)" if column.kind is bytes else name
