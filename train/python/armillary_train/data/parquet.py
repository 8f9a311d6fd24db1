"""Parquet files of click logs, as text that a recipe's parser reads.

Here: columns of a file to lines. So a value means the same in a Parquet file and in a text file,
and there is one parser. polars reads the files; the package needs it anyway.

A category that is a number in the file is that number, whatever its `kind`. Lists are several
values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from armillary import documents
from armillary.errors import InputError, Problem

from .. import _train
from .recipe import CategoryColumn, Recipe

if TYPE_CHECKING:
    import polars as pl

ROWS = 2**16
"""Rows that are read at a time."""

_BETWEEN = "\x1f"
"""Between several values: the unit separator, which is in no text that people write."""
_FORBIDDEN = "[\t\n\x1f]"


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet files do."""
    try:
        with documents.open_plain(path) as stream:
            return stream.read(4) == b"PAR1"
    except OSError:
        return False


class ParquetFile:
    """A file whose columns a recipe uses."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        """Raises `InputError`: it is not a Parquet file, or columns are missing or of other
        types."""
        import polars as pl

        self.path = path
        try:
            self._frame = pl.scan_parquet(path)
            schema = self._frame.collect_schema()
            self.rows: int = self._frame.select(pl.len()).collect().item()
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _unread(path, error) from None
        names = recipe.names
        missing = [name for name in names if name not in schema]
        if missing:
            allowed = ", ".join(list(schema)[:40])
            said = f"has no column {missing[0]!r}"
            raise InputError([Problem(str(path), "", said, f"one of {allowed}")])
        whole = {each.name for each in recipe.dense if each.numbers == "whole"} | {recipe.label}
        lists = {each.name for each in recipe.categories if isinstance(schema[each.name], pl.List)}
        self._columns = [self._column(name, schema[name], name in whole) for name in names]
        categories = [_category(each, schema[each.name], lists) for each in recipe.categories]
        made = replace(recipe, separator="\t", categories=tuple(categories))
        self.parser: _train.TextRecipe = made.parser(names, verbatim=True)
        self._texts = [name for name in names if _text_of(schema[name])]
        self._lists = lists

    def blocks(self) -> Iterator[bytes]:
        """The file as text, `ROWS` lines at a time. Raises `InputError`."""
        import polars as pl

        for first in range(0, self.rows, ROWS):
            try:
                frame = self._frame.slice(first, ROWS).select(self._columns).collect()
                text = frame.write_csv(
                    include_header=False, separator="\t", quote_style="never", null_value=""
                ).encode()
                if not self._is_plain(text, len(frame)):
                    self._require_plain(first)
            except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                raise _unread(self.path, error) from None
            yield text

    def _column(self, name: str, kind: pl.DataType, whole: bool) -> pl.Expr:
        import polars as pl

        column = pl.col(name)
        if isinstance(kind, pl.List):
            return column.cast(pl.List(pl.String)).list.join(_BETWEEN)
        if kind == pl.Boolean or (kind == pl.Categorical or isinstance(kind, pl.Enum)):
            return column.cast(pl.Int8 if kind == pl.Boolean else pl.String)
        if kind.is_float() and whole:
            # Numbers that aren't whole stay as they are, for the parser to refuse.
            number = column.cast(pl.Int64, strict=False)
            return pl.when(number == column).then(number.cast(pl.String)).otherwise(column)
        if kind.is_numeric() or kind == pl.String:
            return column
        said, allowed = f"has the type {kind}", "numbers, text, or lists of these"
        raise InputError([Problem(str(self.path), name, said, allowed)])

    def _is_plain(self, text: bytes, lines: int) -> bool:
        """Whether no value has a separator, as far as their number shows: looking at every value
        takes a third of the time."""
        fields = lines * (len(self._columns) - 1)
        separated = text.count(b"\t") == fields and text.count(b"\n") == lines
        return separated and not self._lists and b"\x1f" not in text

    def _require_plain(self, first: int) -> None:
        """Text with characters that separate fields would be read as several."""
        import polars as pl

        for name in self._texts:
            text = pl.col(name)
            if name in self._lists:
                wrong = text.list.eval(_is_forbidden(pl.element())).list.any()
            else:
                wrong = _is_forbidden(text)
            found = self._frame.slice(first, ROWS).select(wrong).collect()[name].arg_true()
            if len(found):
                row = first + found[0] + 1
                said = "has a tab, a line end or a unit separator"
                allowed = "text without these"
                raise InputError([Problem(str(self.path), f"row {row}: {name}", said, allowed)])


def _is_forbidden(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.cast(pl.String).str.contains(_FORBIDDEN)


def _text_of(kind: pl.DataType) -> bool:
    import polars as pl

    inner = kind.inner if isinstance(kind, pl.List) else kind
    return inner in (pl.String, pl.Categorical) or isinstance(inner, pl.Enum)


def _category(column: CategoryColumn, kind: pl.DataType, lists: set[str]) -> CategoryColumn:
    """The category as the text of this file has it."""
    import polars as pl

    inner = kind.inner if isinstance(kind, pl.List) else kind
    made = replace(column, kind="whole") if inner.is_integer() else column
    if column.name in lists:
        return replace(made, separator=_BETWEEN)
    return made


def _unread(path: Path, error: Exception) -> InputError:
    said = " ".join(str(error).split())[:200]
    return InputError([Problem(str(path), "", f"can't be read: {said}", "a Parquet file")])
