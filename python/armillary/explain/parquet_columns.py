"""Columns of a Parquet file, read in a process of its own: the reader of polars ends its process at
some damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_REFUSED = 3
"""Exit code of a process that names what is wrong."""
_MOST_WORDS = 1000
"""Different words in a column of text."""


class NoColumnsError(Exception):
    """The file has no such columns."""


def columns(path: str, numbers: Mapping[str, bool], words: str, most: int) -> dict[str, list[Any]]:
    """Columns of a file: `numbers`, each whole or not, and one of `words`. Raises `NoColumnsError`
    for a file that is damaged, lacks a column, or has more than `most` rows or other types."""
    asked = json.dumps([path, dict(numbers), words, most])
    run = subprocess.run(
        [sys.executable, "-m", __name__, asked],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if run.returncode == _REFUSED:
        raise NoColumnsError(run.stdout.decode("utf-8", "replace")[:400])
    if run.returncode < 0 or run.returncode:
        raise NoColumnsError("is damaged, or not Parquet")
    head, _, rest = run.stdout.partition(b"\n")
    names, rows = json.loads(head)
    known: dict[str, list[Any]] = {}
    for at, name in enumerate((*numbers, words)):
        kind = np.int64 if numbers.get(name, True) else np.float64
        known[name] = np.frombuffer(rest, kind, rows, at * rows * 8).tolist()
    known[words] = [names[code] for code in known[words]]
    return known


def _read(path: str, numbers: Mapping[str, bool], words: str, most: int) -> bytes:
    """The words and the number of rows as a line of JSON, and then each column in the order that
    was asked for, as numbers of 8 bytes; words by their places. Raises `NoColumnsError`."""
    import polars as pl

    try:
        schema = pl.read_parquet_schema(path)
        wanted: Sequence[str] = (*numbers, words)
        if missing := [name for name in wanted if name not in schema]:
            raise NoColumnsError(f"has no column {missing[0]!r}")
        for name, whole in numbers.items():
            if not (schema[name].is_integer() if whole else schema[name].is_numeric()):
                raise NoColumnsError(f"{name} is not a column of numbers")
        rows = pl.scan_parquet(path).select(pl.len()).collect().item()
        if rows > most:
            raise NoColumnsError(f"has {rows:,} rows; at most {most:,} are read")
        table = pl.read_parquet(path, columns=list(wanted))
        for name in wanted:
            if table[name].null_count():
                row = int(table[name].is_null().arg_max() or 0) + 1
                raise NoColumnsError(f"row {row}: {name} is empty")
        text = table[words].cast(pl.String)
        names = text.unique().sort().to_list()
        if len(names) > _MOST_WORDS:
            raise NoColumnsError(f"{words} has more than {_MOST_WORDS:,} different words")
        codes = {name: code for code, name in enumerate(names)}
        arrays = {
            name: table[name].cast(pl.Int64 if whole else pl.Float64).to_numpy()
            for name, whole in numbers.items()
        }
        arrays[words] = np.array([codes[name] for name in text.to_list()], np.int64)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        said = getattr(error, "strerror", None) or "is damaged, or not Parquet"
        raise NoColumnsError(said) from None
    head = json.dumps([names, table.height]).encode() + b"\n"
    return head + b"".join(arrays[name].tobytes() for name in wanted)


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(_read(*json.loads(sys.argv[1])))
    except NoColumnsError as wrong:
        sys.stdout.write(str(wrong))
        sys.exit(_REFUSED)
