"""Keys of files, each declared once: the fields of a dataclass, read from a document with lines.

The name, type and default of a field say what a file may hold. A type may be `int`, `float`, `str`
(not empty), `bool`, `Literal`, `object` (anything), another dataclass, `tuple[X, ...]`,
`tuple[X, Y]`, `Mapping[str, X]`, or `X | None`. `Annotated` adds the rest: `Within`, `Unit`,
`Made`, `Short`, `Several`, `Keys`, `Others`, `Allowed`. A field without a default is required. A
key without a value (`key: null`) counts as left out. A dataclass whose values don't fit together
raises `Wrong` in its `__post_init__`. `A | B` of dataclasses is one of them: their first fields say
which, by the key that only one has, or by the value of a `Literal` that all have. The field `from_`
is the key `from`.

Here: `Source`, a document and the problems found in it; `read`, which goes through all of a
document and keeps every problem with its line. Not here: text, YAML and JSON (`documents.py`), old
words (`old_words.py`), options of verbs and models (`option_fields.py`)."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from . import documents
from .documents import Path_
from .errors import InputError, Problem
from .units import UNITS, base, split

T = TypeVar("T")
_SHOWN = 60
"""Characters of a value in a message."""
_BAD: Any = object()
"""In place of a value whose problem is kept already."""


@dataclass(frozen=True)
class Source:
    """A document, the lines of its keys, and the problems found in it so far."""

    values: dict[str, Any]
    file: str = "study"
    """Name of the file as the caller gave it, for problems."""
    folder: str = "."
    """Folder that relative paths start from."""
    lines: Mapping[Path_, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def fault(self, path: Path_, message: str, allowed: str = "") -> None:
        """Keeps a problem with the value at `path`."""
        self.problems.append(Problem(self.file, self.place(path), message, allowed))

    def place(self, path: Path_) -> str:
        """The place of `path`, such as `line 7: search.points`."""
        return documents.place(path, self.lines)

    def finish(self) -> None:
        """Raises everything found."""
        if self.problems:
            raise InputError(self.problems)


class Wrong(ValueError):
    """A value that is not allowed: what is wrong, the allowed values, and the keys inside the
    value that lead to the fault."""

    def __init__(self, message: str, allowed: str = "", *path: str | int) -> None:
        super().__init__(message)
        self.message, self.allowed, self.path = message, allowed, path


@dataclass(frozen=True, slots=True)
class Within:
    """Bounds of a number, or of the length of a list; both included."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Unit:
    """A text with a unit, read as a number of bytes, seconds or bytes a second above 0."""

    unit: Literal["B", "s", "B/s"]
    least: float = 0.0
    """Least amount; above 0, the amount itself is allowed."""


@dataclass(frozen=True, slots=True)
class Made:
    """A value that `make` makes of the file's; `make` may raise `Wrong`."""

    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Words for the allowed values."""

    words: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a mapping may have, where not any."""

    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Others:
    """A mapping that may have other keys than those of its dataclass."""


@dataclass(frozen=True, slots=True)
class Short:
    """A value that is not a mapping stands for a mapping with that value at `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class Several:
    """A value that is not a list stands for a list of one."""


Amount = Annotated[float, Unit("B/s")]
"""Bytes a second."""
Seconds = Annotated[float, Unit("s")]
Note = Annotated[str, Made(str)]
"""Free text."""
_EXAMPLES = {"B/s": "300 GB/s", "s": "1.5 s", "B": "1 GiB"}
_WORDS: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true, false",
    object: "a value",
    tuple: "a list",
    Mapping: "a mapping",
}
_MOST = 2**63
_Read = Callable[[Source, Path_, Any], Any]
"""Reads a value. Raises `Wrong`; returns `_BAD` where the source has the problem already."""


def open_source(path: str | os.PathLike[str], what: str) -> Source:
    """The document in a file: JSON where its name ends so, YAML elsewhere. Raises `InputError`;
    keys that are given twice are problems of the source."""
    name = os.fspath(path)
    text = documents.read_text(path, what)
    if Path(name).suffix == ".json":
        return Source(documents.parse_json(text, name, what), name, _folder(name))
    return parse_source(text, name)


def parse_source(text: str, file: str) -> Source:
    """The document in a YAML text. Raises `InputError`."""
    document = documents.parse_yaml(text, file, "`key: value` lines")
    source = Source(document.value, file, _folder(file), document.lines)
    twice = {path for path, _ in document.repeated}
    for path, line in document.repeated:
        if any(path[:length] in twice for length in range(1, len(path))):
            continue  # Keys inside a repeated one are its own.
        source.fault(path, f"is given twice, in line {line} again", "each key once")
    return source


def _folder(file: str) -> str:
    return os.path.dirname(file) or "."  # noqa: PTH120


def read(
    declared: type[T],
    source: Source,
    path: Path_ = (),
    raw: object = _BAD,
    given: Mapping[str, object] | None = None,
    also: Collection[str] = (),
) -> T | None:
    """The dataclass `declared` of the mapping `raw` at `path`, by default of the whole document.

    `given` are fields that the file does not have; `also` are keys that someone else reads. A
    field with a problem has its default; without a default, there is no object. Problems go to
    the source."""
    value = source.values if raw is _BAD else raw
    found = _attempt(_mapping(declared, given or {}, also), source, path, value)
    return None if found is _BAD else cast(T, found)


def read_value(hint: object, source: Source, path: Path_, raw: object, default: T) -> T:
    """A value of the type `hint`; `default` where it has problems, which go to the source."""
    found = _attempt(_reader(hint), source, path, raw)
    return default if found is _BAD else cast(T, found)


def unknown(source: Source, path: Path_, raw: Iterable[object], known: Collection[str]) -> None:
    """Refuses the keys of `raw` that are not `known`, with the nearest ones."""
    for key in raw:
        if key not in known:
            source.fault((*path, str(key)), "unknown key", near(key, known))


def near(word: object, known: Collection[str]) -> str:
    """The known words that are like `word`; all of them where none is."""
    return ", ".join(difflib.get_close_matches(str(word), known, n=3) or known)


def shown(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _attempt(reader: _Read, source: Source, path: Path_, raw: object) -> Any:  # noqa: ANN401
    """The value as the reader makes it; a fault goes to the source."""
    try:
        return reader(source, path, raw)
    except Wrong as wrong:
        source.fault((*path, *wrong.path), wrong.message, wrong.allowed)
        return _BAD


@functools.cache
def _reader(annotated: object) -> _Read:
    """The reader of a type."""
    hint, marks = _parts(annotated)
    allowed = _words(annotated)
    if Made in marks:
        return _made(marks[Made].make, allowed)
    if Unit in marks:
        return _amount(marks[Unit], hint, allowed)
    if dataclasses.is_dataclass(hint):
        return _mapping(cast(type, hint), short=marks.get(Short), is_open=Others in marks)
    if len(_kinds(hint)) > 1:
        return _one_of(tuple(_kinds(hint)), marks.get(Short), allowed)
    if get_origin(hint) is None:
        plain = {bool: _flag, str: _text, object: _anything}
        return plain[hint](allowed) if hint in plain else _number(hint, marks.get(Within), allowed)
    return _composed(hint, marks, allowed)


def _composed(hint: object, marks: Mapping[type, Any], allowed: str) -> _Read:
    """The reader of a type with others inside."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (only,) = _kinds(hint)
        reader = _reader(Annotated[only, *marks.values()] if marks else only)
        return lambda source, path, raw: None if raw is None else reader(source, path, raw)
    if origin is tuple:
        return _list(inner, marks, allowed)
    return _choice(inner, allowed) if origin is Literal else _open_mapping(inner[1], marks, allowed)


def _kinds(hint: Any) -> list[Any]:  # noqa: ANN401
    """The types of a union but `None`; none for another type."""
    union = get_origin(hint) in (typing.Union, types.UnionType)
    return [each for each in get_args(hint) if each is not type(None)] if union else []


def _parts(hint: Any) -> tuple[Any, dict[type, Any]]:  # noqa: ANN401
    """The type itself, and what is annotated."""
    marks = hint.__metadata__ if get_origin(hint) is Annotated else ()
    return (hint.__origin__ if marks else hint), {type(each): each for each in marks}


def _words(annotated: object) -> str:
    """The allowed values of a type, in words."""
    hint, marks = _parts(annotated)
    origin, inner = get_origin(hint), get_args(hint)
    within = marks.get(Within)
    if Allowed in marks:
        said = marks[Allowed].words
    elif Unit in marks:
        said = f"such as {_EXAMPLES[marks[Unit].unit]}"
    elif dataclasses.is_dataclass(hint):
        said = f"keys: {', '.join(map(_key, dataclasses.fields(hint)))}"
    elif Keys in marks:
        said = f"keys: {', '.join(marks[Keys].known)}"
    elif origin is Literal:
        said = ", ".join(map(str, inner))
    elif kinds := _kinds(hint):
        said = _words(kinds[0]) if len(kinds) == 1 else ", ".join(map(str, _tags(kinds)[1]))
    elif origin is None and within is not None:
        said = f"{_WORDS[hint]} from {within.least:,} to {within.most:,}"
    else:
        said = _WORDS.get(origin or hint, "a value")
    return str(said)


@functools.cache
def _hints(declared: type) -> Mapping[str, Any]:
    """The type of each field, with what is annotated."""
    return typing.get_type_hints(declared, include_extras=True)


def _mapping(
    declared: type[Any],
    given: Mapping[str, object] = types.MappingProxyType({}),
    also: Collection[str] = (),
    short: Short | None = None,
    is_open: bool = False,
) -> _Read:
    kinds = _hints(cast(Any, declared))
    fields = {_key(each): each for each in dataclasses.fields(declared) if each.name not in given}
    known = (*fields, *also)

    def reader(source: Source, path: Path_, raw: Any) -> Any:  # noqa: ANN401
        raw, at = _spread(raw, short)
        if not isinstance(raw, dict):
            raise Wrong(f"{shown(raw)} is not a mapping", f"keys: {', '.join(known)}")
        unknown(source, path, () if is_open else raw, known)
        found, whole, before = dict(given), True, len(source.problems)
        for key, each in fields.items():
            kind = kinds[each.name]
            if raw.get(key) is not None or (key in raw and _takes_none(kind)):
                value = _attempt(_reader(kind), source, (*path, *at(key)), raw[key])
                if value is not _BAD:
                    found[each.name] = value
                    continue
            if each.default is dataclasses.MISSING is each.default_factory:
                whole = False
                if raw.get(key) is None:
                    source.fault((*path, key), "is missing", _words(kind))
        try:
            return declared(**found) if whole else _BAD
        except Wrong:
            if len(source.problems) == before:
                raise
            return _BAD  # A default is in place of a value with a problem.

    return reader


def _key(each: dataclasses.Field[Any]) -> str:
    """The key of a field."""
    return each.name.removesuffix("_")


def _spread(raw: Any, short: Short | None) -> tuple[Any, Callable[[str], Path_]]:  # noqa: ANN401
    """The mapping that a value stands for; from its keys to where they are in the file."""
    if short is None or isinstance(raw, dict):
        return raw, lambda key: (key,)
    return {short.key: raw}, lambda key: () if key == short.key else (key,)


def _tags(kinds: Iterable[type]) -> tuple[str, dict[object, type]]:
    """The key whose value says which dataclass a mapping is, and the values; without such a key
    nothing, and the keys that say it."""
    heads = {kind: dataclasses.fields(kind)[0] for kind in kinds}
    keys: dict[object, type] = {_key(head): kind for kind, head in heads.items()}
    if len(keys) > 1:
        return "", keys
    values = {each: get_args(_hints(cast(Any, each))[head.name]) for each, head in heads.items()}
    return str(*keys), {value: kind for kind, some in values.items() for value in some}


def _one_of(kinds: tuple[type, ...], short: Short | None, allowed: str) -> _Read:
    """The reader of a mapping that is one of several dataclasses."""
    key, tags = _tags(kinds)
    usual = dataclasses.fields(kinds[0])[0].default
    readers = {tag: _mapping(kind, short=short) for tag, kind in tags.items()}

    def reader(source: Source, path: Path_, raw: Any) -> Any:  # noqa: ANN401
        spread, at = _spread(raw, short)
        if not isinstance(spread, dict):
            raise Wrong(f"{shown(raw)} is not a mapping", allowed)
        said = [spread.get(key, usual)] if key else [tag for tag in tags if tag in spread]
        if len(said) == 1 and isinstance(said[0], str) and said[0] in tags:
            return readers[said[0]](source, path, raw)
        if not key:
            raise Wrong(f"has {' and '.join(map(str, said)) or 'none of the keys'}", allowed)
        missing = said[0] is dataclasses.MISSING
        said_ = "is missing" if missing else f"unknown {key} {shown(said[0])}"
        raise Wrong(said_, allowed, *at(key))

    return reader


def _takes_none(annotated: object) -> bool:
    """Whether a key without a value is not left out."""
    hint, _ = _parts(annotated)
    return hint is object or type(None) in get_args(hint)


def _list(hints: tuple[Any, ...], marks: Mapping[type, Any], allowed: str) -> _Read:
    many, within = hints[-1] is ..., marks.get(Within)
    readers = [_reader(each) for each in hints if each is not ...]
    least, most = (within.least, within.most) if within else (0, _MOST)
    least, most = (least, most) if many else (len(readers), len(readers))

    def reader(source: Source, path: Path_, raw: Any) -> Any:  # noqa: ANN401
        listed = isinstance(raw, list)
        if not listed and Several not in marks:
            raise Wrong(f"{shown(raw)} is not a list", allowed)
        values = raw if listed else [raw]
        if not least <= len(values) <= most:
            raise Wrong(f"{shown(raw)} is a list of {len(values)}", allowed)
        each = readers * len(values) if many else readers
        found = [
            _attempt(inner, source, (*path, index) if listed else path, value)
            for index, (inner, value) in enumerate(zip(each, values, strict=True))
        ]
        return _BAD if any(value is _BAD for value in found) else tuple(found)

    return reader


def _open_mapping(hint: object, marks: Mapping[type, Any], allowed: str) -> _Read:
    """The reader of a mapping from any keys, or those of `Keys`, to values of one type."""
    known, inner = marks[Keys].known if Keys in marks else (), _reader(hint)
    least = marks[Within].least if Within in marks else 0

    def reader(source: Source, path: Path_, raw: Any) -> Any:  # noqa: ANN401
        if not isinstance(raw, dict) or len(raw) < least:
            message = "is empty" if raw == {} else f"{shown(raw)} is not a mapping"
            raise Wrong(message, allowed)
        if known:
            unknown(source, path, raw, known)
        found = {
            str(key): _attempt(inner, source, (*path, str(key)), value)
            for key, value in raw.items()
            if not known or key in known
        }
        return _BAD if any(value is _BAD for value in found.values()) else found

    return reader


def _made(make: Callable[[Any], Any], allowed: str) -> _Read:
    def reader(_source: Source, _path: Path_, raw: Any) -> Any:  # noqa: ANN401
        try:
            return make(raw)
        except Wrong as wrong:
            raise Wrong(wrong.message, wrong.allowed or allowed, *wrong.path) from None

    return reader


def _amount(unit: Unit, kind: type, allowed: str) -> _Read:
    def reader(_source: Source, _path: Path_, raw: Any) -> Any:  # noqa: ANN401
        parted = split(raw) if isinstance(raw, str) else None
        amount = kind(base(raw) or 0) if parted is not None else 0
        if parted is None or UNITS[parted[1]][0] != unit.unit or not 0 < amount >= unit.least:
            raise Wrong(f"{shown(raw)} is not an amount above 0 with a unit", allowed)
        return amount

    return reader


def _choice(choices: tuple[object, ...], allowed: str) -> _Read:
    def reader(_source: Source, path: Path_, raw: Any) -> Any:  # noqa: ANN401
        if not any(raw == each and type(raw) is type(each) for each in choices):
            raise Wrong(f"unknown {path[-1]} {shown(raw)}", allowed)
        return raw

    return reader


def _number(kind: type, within: Within | None, allowed: str) -> _Read:
    kinds = (int,) if kind is int else (int, float)

    def reader(_source: Source, _path: Path_, raw: Any) -> Any:  # noqa: ANN401
        fits = isinstance(raw, kinds) and not isinstance(raw, bool)
        if fits and (within is None or within.least <= raw <= within.most):
            return kind(raw)
        said = f"invalid count: {shown(raw)}" if kind is int else f"{shown(raw)} is not a number"
        raise Wrong(f"{shown(raw)} is out of range" if fits and kind is float else said, allowed)

    return reader


def _text(allowed: str) -> _Read:
    def reader(_source: Source, _path: Path_, raw: Any) -> Any:  # noqa: ANN401
        if not isinstance(raw, str) or not raw:
            raise Wrong(f"{shown(raw)} is not a name", allowed)
        return raw

    return reader


def _flag(allowed: str) -> _Read:
    def reader(_source: Source, _path: Path_, raw: Any) -> Any:  # noqa: ANN401
        if not isinstance(raw, bool):
            raise Wrong(f"{shown(raw)} is neither true nor false", allowed)
        return raw

    return reader


def _anything(_allowed: str) -> _Read:
    return lambda _source, _path, raw: raw
