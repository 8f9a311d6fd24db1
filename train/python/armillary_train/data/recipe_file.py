"""Recipe files: recipes as YAML. Keys and their defaults are the fields of `recipe.py`.

Here: columns of one description, and the parts that must fit together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from armillary.declared import Allowed, Source, Within, Wrong, open_source, read, read_value

from .recipe import CategoryColumn, DenseColumn, HeldOut, Recipe, Seed, criteo

_NAMES = "[NAME, ...]"
_Names = Annotated[tuple[str, ...], Within(1, 2**20), Allowed(_NAMES)]
_Entries = Annotated[tuple[object, ...], Allowed("- {columns: [NAME, ...], ...}")]


@dataclass(frozen=True, slots=True)
class _HeldOut:
    days: Annotated[int, Within(0, 2**16)] | None = None
    share: float | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        if (self.days is None) == (self.share is None):
            raise Wrong("needs one of days and share", "{days: 1}, or {share: 0.1}")
        if self.share is not None and not 0 < self.share < 1:
            raise Wrong(f"{self.share} is out of range", "between 0 and 1", "share")


def read_recipe(path: str) -> Recipe:
    """The recipe in a file. Keys that it leaves out are those of Criteo's logs; with `dense` or
    `categories`, `label` and `columns` are its own. Raises `InputError` with every problem."""
    source, usual = open_source(path, "a recipe of data"), criteo()
    raw: Any = source.values
    values = raw if isinstance(raw, dict) else {}
    parts: dict[str, Any] = {each: getattr(usual, each) for each in ("dense", "categories")}
    columns: list[str] | None = list(usual.columns or ())
    if values.keys() & parts.keys():
        parts = {
            "dense": _columns(source, "dense", DenseColumn),
            "categories": _columns(source, "categories", CategoryColumn),
        }
        columns = None
    held_out = HeldOut()
    if "held_out" in values:
        found = read(_HeldOut, source, ("held_out",), values["held_out"])
        held_out = held_out if found is None else HeldOut(found.days, found.share, found.seed)
    parts["held_out"] = held_out
    raw = {"columns": columns, "label": usual.label, **values} if raw is values else raw
    made = read(Recipe, source, (), raw, parts, also=parts)
    if made is not None:
        _check(source, made)
    source.finish()
    assert made is not None
    return made


def _columns(
    source: Source, key: str, shape: type[DenseColumn] | type[CategoryColumn]
) -> tuple[object, ...]:
    """The columns of a list of descriptions; one description may have several columns."""
    found = list[object]()
    entries: tuple[Any, ...] = read_value(_Entries, source, (key,), source.values.get(key, []), ())
    for index, entry in enumerate(entries):
        path, names = (key, index), tuple[str, ...]()
        column = read(shape, source, path, entry, {"name": ""}, also=("columns",))
        if isinstance(entry, dict) and "columns" in entry:
            names = read_value(_Names, source, (*path, "columns"), entry["columns"], ())
        elif isinstance(entry, dict):
            source.fault((*path, "columns"), "is missing", _NAMES)
        if column is not None:
            found += [replace(column, name=name) for name in names]
    return tuple(found)


def _check(source: Source, recipe: Recipe) -> None:
    used = recipe.names
    for name in sorted({name for name in used if used.count(name) > 1}):
        source.fault((), f"column {name!r} is used twice", "each column once")
    if recipe.columns is not None:
        for name in sorted(set(used) - set(recipe.columns)):
            source.fault(("columns",), f"has no column {name!r}", "all columns that are used")
    if not recipe.categories and not source.problems:
        source.fault(("categories",), "there are none", "at least one")
