"""Recipes: which column of click logs is what, and how it changes before a model reads it.

Here: recipes as data, and Criteo's. Not here: recipe files (`recipe_file.py`), the parser that does
what a recipe says (train/crates/ingest).

A dense value `x` becomes `normalize(log(clip(x)))`. A category's value `v` becomes the row
`hash(v) mod rows` of its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from armillary.declared import Allowed, Made, Unit, Within, Wrong
from armillary.errors import InputError, Problem
from armillary.units import counted

from .. import _train
from .samples import DENSE, LEAST_COUNT

CATEGORIES = 26
"""Categories of a line of Criteo's logs."""

MOST_ROWS = 2**40

Numbers = Literal["whole", "decimal"]
Kind = Literal["hexadecimal", "whole", "text"]
_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " "}
Seed = Annotated[int, Within(0, 2**63 - 1)]


def _separator(raw: object) -> str:
    found = _SEPARATORS.get(raw, raw) if isinstance(raw, str) else ""
    if len(found) != 1 or ord(found) > 126 or found in "\n\r" or found.isalnum():
        raise Wrong(f"{raw!r} is not a separator")
    return found


def _missing(raw: object) -> int | None:
    """A category; `skip`: the sample looks up no row."""
    if raw in ("skip", None):
        return None
    if type(raw) is not int or abs(raw) > 2**62:
        raise Wrong(f"invalid count: {raw!r}", "skip, or a whole number up to 2^62")
    return raw


_Separator = Annotated[
    str,
    Made(_separator),
    Allowed(f"{', '.join(_SEPARATORS)}, or one character that is in no value"),
]


@dataclass(frozen=True, slots=True)
class DenseColumn:
    """A column of numbers."""

    name: str
    numbers: Numbers = "decimal"
    """Whole numbers of up to nine digits, or decimal ones."""
    missing: float = 0.0
    """Value in place of a missing one."""
    clip: Annotated[tuple[float | None, float | None], Allowed("two numbers, or null for none")] = (
        None,
        None,
    )
    """Values below the first are raised to it, those above the second lowered to it."""
    log: float | None = None
    """The value becomes its natural logarithm after this is added."""
    normalize: Annotated[tuple[float, float], Allowed("two numbers")] | None = None
    """The mean that is subtracted, and what the difference is divided by."""

    def __post_init__(self) -> None:
        least, greatest = self.clip
        if least is not None and greatest is not None and least > greatest:
            raise Wrong(f"{least} is above {greatest}", "[least, greatest]", "clip")
        if self.normalize and self.normalize[1] <= 0:
            said = f"the deviation is {self.normalize[1]}"
            raise Wrong(said, "[mean, deviation above 0]", "normalize")


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """A column of categories."""

    name: str
    kind: Kind = "text"
    """How text has a value: up to eight hexadecimal digits, a whole number, or any text, whose
    value is a hash of it."""
    missing: Annotated[int | None, Made(_missing)] = 0
    """Category in place of a missing one; `None`: the sample looks up no row."""
    separator: _Separator | None = None
    """Separator of several values of a sample; `None`: there is one."""
    hash: Seed | None = None
    """Seed of a hash of values before they become rows."""
    rows: Annotated[int, Within(1, MOST_ROWS)] | None = None
    """Rows of the table; `None`: those of a model, or values stay whole."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Samples that are kept for evaluation."""

    days: int | None = 1
    """The last files, or the last sevenths of a single one."""
    share: float | None = None
    """This share of all samples, drawn by their number and a seed, in place of days."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The samples to train on in an order drawn by chance."""

    seed: Seed = 0
    memory: Annotated[int, Unit("B", 2**20), Allowed("a size such as 1 GiB, at least 1 MiB")] = (
        2**30
    )
    """Bytes of samples that are in memory at a time, about."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe of an ingestion."""

    columns: tuple[str, ...] | None
    """Names of the columns of a text file, in order; `None`: the first line of each file says."""
    label: str
    """Column of labels, 0 or 1."""
    dense: tuple[DenseColumn, ...]
    categories: tuple[CategoryColumn, ...]
    separator: _Separator = "\t"
    """Separator of columns in a text file."""
    held_out: HeldOut = field(default_factory=HeldOut)
    shuffle: Shuffle | None = None
    samples_per_file: Annotated[int, Within(1, 2**26)] = 2**18

    @property
    def names(self) -> list[str]:
        """Columns that are used: label, dense columns, categories."""
        dense = [each.name for each in self.dense]
        return [self.label, *dense, *(each.name for each in self.categories)]

    def with_rows(self, rows: Sequence[int], model: str) -> Recipe:
        """With the rows of a model's tables, for categories without. Raises `InputError`."""
        if len(rows) != len(self.categories):
            said = f"has {counted(len(rows), 'table')}"
            allowed = f"{len(self.categories)}: the categories of the data"
            raise InputError([Problem(model, "tables", said, allowed)])
        pairs = zip(self.categories, rows, strict=True)
        made = [replace(each, rows=each.rows or rows_) for each, rows_ in pairs]
        return replace(self, categories=tuple(made))

    def parser(
        self, columns: Sequence[str] | None = None, *, verbatim: bool = False
    ) -> _train.TextRecipe:
        """The parser of lines with these columns, those of the recipe by default. `verbatim`: text
        may have quotes around it and carriage returns at its end, which are part of it."""
        names = columns or self.columns
        assert names is not None
        known: dict[str, tuple[str, int]] = {self.label: ("label", 0)}
        known |= {each.name: ("dense", at) for at, each in enumerate(self.dense)}
        known |= {each.name: ("category", at) for at, each in enumerate(self.categories)}
        return _train.TextRecipe(
            ord(self.separator),
            [known.get(name, ("skip", 0)) for name in names],
            [_dense(each) for each in self.dense],
            [_category(each, verbatim=verbatim) for each in self.categories],
        )


def _dense(column: DenseColumn) -> dict[str, object]:
    low, high = column.clip
    clip = (-math.inf if low is None else low, math.inf if high is None else high)
    return {
        "name": column.name,
        "numbers": column.numbers,
        "missing": float(column.missing),
        "clip": clip,
        "log": column.log,
        "normalize": column.normalize,
    }


def _category(column: CategoryColumn, *, verbatim: bool) -> dict[str, object]:
    return {
        "name": column.name,
        "kind": "verbatim" if verbatim and column.kind == "text" else column.kind,
        "missing": column.missing,
        "between": None if column.separator is None else ord(column.separator),
        "hash": column.hash,
        "rows": column.rows,
    }


def criteo() -> Recipe:
    """Criteo's logs as published: a label, 13 counts, 26 categories in hexadecimal, with tabs
    between.

    A count becomes `log(count + 3)`, as in the preprocessing of Criteo Terabyte in torchrec
    (`datasets/criteo.py`). A missing count is 0, a missing category the value 0."""
    counts = [f"count {at}" for at in range(1, DENSE + 1)]
    categories = [f"category {at}" for at in range(1, CATEGORIES + 1)]
    log = float(2 - LEAST_COUNT)
    return Recipe(
        ("label", *counts, *categories),
        "label",
        tuple(
            DenseColumn(name, "whole", clip=(float(LEAST_COUNT), None), log=log) for name in counts
        ),
        tuple(CategoryColumn(name, "hexadecimal") for name in categories),
    )
