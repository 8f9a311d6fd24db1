"""Input files, read within bounds: text, JSON and YAML that people and other programs wrote.

Here: limits for every reader, against endless files and nesting, and against numbers and texts that
Python or JSON can't hold. Not here: what a document means (its reader), reports and traces (large,
and decoded by type). Bounds: `MOST_BYTES` of text, `MOST_YAML` bytes of YAML (which is slow to
read), `MOST_DEPTH` levels, `MOST_BITS` of a whole number. Everything beyond them is an `InputError`
that names file and place."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO

from .errors import InputError, Problem

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 64 * 2**20
MOST_YAML = 4 * 2**20
MOST_DEPTH = 100
MOST_BITS = 128
_PART = 2**20

Path_ = tuple[str | int, ...]
"""Keys and indices that lead to a value."""
_SHALLOW = f"at most {MOST_DEPTH} levels"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document: its value, the line of each key and item (from 1), and the keys that are
    given twice."""

    value: Any
    lines: dict[Path_, int] = field(default_factory=dict)
    repeated: list[tuple[Path_, int]] = field(default_factory=list)
    """Path and the later line."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Place of a key, or of a text, number or flag, in the text of a document."""

    path: Path_
    is_key: bool
    start: int
    end: int
    """Characters of the text from `start` to `end`."""
    line: int
    quote: str
    """`'` or `"` around it; empty without, and for other styles their sign."""


def open_plain(path: str | os.PathLike[str]) -> BufferedReader:
    """A plain file to read. Raises `OSError`, also for devices, pipes, sockets and folders: reading
    them might never end."""
    _require_plain(os.stat(path).st_mode, path)  # noqa: PTH116 - before it is opened: see below
    # Opening a pipe does not wait for a writer. The file may be another one by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_plain(os.fstat(descriptor).st_mode, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_plain(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", os.fspath(path))
    kinds = {stat.S_ISREG: "", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    what = next((what for is_kind, what in kinds.items() if is_kind(mode)), "a device")
    if what:
        raise OSError(errno.EINVAL, f"it is {what}, not a file", os.fspath(path))


def read_bytes(path: str | os.PathLike[str], allowed: str, most: int = MOST_BYTES) -> bytes:
    """The content of a plain file of at most `most` bytes. Raises `InputError`."""
    name = os.fspath(path)
    try:
        return content(path, most)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        said = getattr(error, "strerror", None) or str(error)
        reads = getattr(error, "errno", None) == errno.EFBIG
        message = said if reads else f"can't be read: {said}"
        raise InputError([Problem(name, "", message, allowed)]) from None


def content(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Bytes of the file, as `read_bytes` gives them. Raises `OSError`."""
    with open_plain(path) as stream:
        found = read_stream(stream, most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"is larger than {_size(most)}", os.fspath(path))
    return found


def read_stream(stream: BinaryIO, most: int) -> bytes:
    """Up to `most` bytes, taking memory for what is there and not for what might be."""
    parts: list[bytes] = []
    while most > 0 and (part := stream.read(min(most, _PART))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file; names that no file can have name none."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a name that is too long


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder, likewise."""
    return os.path.isdir(path)  # noqa: PTH112


def is_name(text: str) -> bool:
    """Whether a name that a file gives is one of a file next to it, and leads nowhere else."""
    return text not in ("", ".", "..") and len(text) <= 255 and not set(text) & set("/\\\0")


def read_text(path: str | os.PathLike[str], allowed: str, most: int = MOST_BYTES) -> str:
    """Content of the file as text in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path, allowed, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        name = os.fspath(path)
        raise InputError(
            [Problem(name, f"byte {error.start}", "is not UTF-8 text", allowed)]
        ) from None


def parse_json(text: str, file: str, allowed: str, finite: bool = True) -> Any:  # noqa: ANN401
    """The value of a JSON text. Python's `NaN` and `Infinity` are refused unless `finite` is false.

    Raises `InputError` naming `file` and the place.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise InputError([Problem(file, "", "is nested too deeply", _SHALLOW)]) from None
    except ValueError as error:
        raise InputError([Problem(file, "", f"is not JSON: {reason(error)}", allowed)]) from None
    require_sound(value, file, finite)
    return value


def parse_yaml(text: str, file: str, allowed: str) -> Document:
    """The document of a YAML text: texts, numbers, true, false, null, lists and mappings; dates
    stay text.

    Aliases are refused, for a few of them make a document of any size. Raises `InputError` naming
    `file` and the line."""
    # Not with the package: `armillary astra-sim` starts thousands of times and needs none.
    import yaml

    if len(text) > MOST_YAML:
        raise InputError([Problem(file, "", f"is larger than {_size(MOST_YAML)}", allowed)])
    try:
        node, value = _compose(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = f"line {mark.line + 1}" if mark else ""
        raise InputError([Problem(file, place, f"is not YAML: {said}", allowed)]) from None
    except _Refused as refused:
        raise InputError(
            [Problem(file, f"line {refused.line}", refused.message, refused.allowed)]
        ) from None
    except (
        ValueError,
        TypeError,
        OverflowError,
    ) as error:  # a number or a character that Python can't hold
        raise InputError([Problem(file, "", f"can't be read: {reason(error)}", allowed)]) from None
    document = Document(value)
    for path, line in _walk(node, ()):
        if document.lines.setdefault(path, line) != line:
            document.repeated.append((path, line))
    require_sound(value, file, True, document.lines)
    return document


def require_sound(
    value: object, file: str, finite: bool = True, lines: Mapping[Path_, int] | None = None
) -> None:
    """Raises `InputError` for values of a document that later code can't handle.

    These are nesting beyond `MOST_DEPTH`, whole numbers beyond `MOST_BITS`, halves of surrogate
    pairs, and, with `finite`, numbers that are none."""
    left: list[tuple[object, Path_]] = [(value, ())]
    while left:
        each, path = left.pop()
        fault = _fault(each, len(path), finite)
        if fault is not None:
            message, allowed = fault
            raise InputError([Problem(file, place(path, lines), message, allowed)])
        if isinstance(each, dict):
            for key, inner in each.items():
                if _fault(key, 0, finite) is not None:
                    raise InputError(
                        [Problem(file, place(path, lines), "a key is not text", "UTF-8 text")]
                    )
                left.append((inner, (*path, str(key))))
        elif isinstance(each, list):
            left.extend((inner, (*path, index)) for index, inner in enumerate(each))


def place(path: Path_, lines: Mapping[Path_, int] | None = None) -> str:
    """Where `path` stands, with the line of the innermost part that has one: `line 7:
    search.points[2]`."""
    parts = path if len(path) <= 8 else (*path[:8], "...")
    shown = "".join(
        f"[{part}]" if isinstance(part, int) else f".{str(part)[:80]}" for part in parts
    ).lstrip(".")
    shown = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", shown)
    known = (
        next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)
        if lines
        else None
    )
    return shown if known is None else f"line {known}: {shown}"


def _fault(value: object, depth: int, finite: bool) -> tuple[str, str] | None:
    """Fault of a value by itself, and the allowed ones."""
    if depth > MOST_DEPTH:
        return "is nested too deeply", _SHALLOW
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return "the whole number is too large", f"whole numbers of at most {MOST_BITS} bits"
    if finite and isinstance(value, float) and not math.isfinite(value):
        return f"is {value}", "a finite number"
    if isinstance(value, str) and _SURROGATE.search(value):
        return "holds half of a surrogate pair", "UTF-8 text"
    return None


class _Refused(Exception):
    """A node of a YAML document that is not read on."""

    def __init__(self, line: int, message: str, allowed: str) -> None:
        super().__init__(message)
        self.line, self.message, self.allowed = line, message, allowed


def _compose(text: str) -> tuple[yaml.Node | None, Any]:
    """The nodes of a document and its value, read once, refused at the first node that is too
    deep."""
    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


@cache
def _loader() -> Any:  # noqa: ANN401 - a class that exists once YAML is imported
    """A reader of the JSON part of YAML: other types (dates, sets, binary) stay text or are
    refused.

    libyaml, where PyYAML has it, only cuts the text into events: it is several times as fast.
    """
    import yaml
    from yaml.composer import Composer
    from yaml.constructor import SafeConstructor
    from yaml.resolver import Resolver

    class Loader(Composer, _events(), SafeConstructor, Resolver):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            _events().__init__(self, text)
            for base in (Composer, SafeConstructor, Resolver):
                base.__init__(self)
            self.depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event = self.peek_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise _Refused(line, f"uses an alias (*{event.anchor})", "values written out")
            if self.depth > MOST_DEPTH:
                raise _Refused(line, "is nested too deeply", _SHALLOW)
            self.depth += 1
            node: yaml.Node | None = super().compose_node(parent, index)
            self.depth -= 1
            return node

    tags = (
        *(
            f"tag:yaml.org,2002:{name}"
            for name in ("null", "bool", "int", "float", "str", "seq", "map")
        ),
        None,
    )
    Loader.yaml_constructors = {tag: SafeConstructor.yaml_constructors[tag] for tag in tags}
    Loader.yaml_implicit_resolvers = {
        first: [
            (tag, pattern) for tag, pattern in found if not tag.endswith((":timestamp", ":value"))
        ]
        for first, found in Resolver.yaml_implicit_resolvers.items()
    }
    return Loader


@cache
def _events() -> Any:  # noqa: ANN401 - as above
    """The parser that turns a text into YAML events."""
    import yaml
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    if yaml.__with_libyaml__:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]

        return CParser

    class Events(Reader, Scanner, Parser):
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)

    return Events


def _walk(node: object, path: Path_) -> Iterator[tuple[Path_, int]]:
    """Every key and item with its line, from 1."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "?")
            yield inner, key.start_mark.line + 1
            yield from _walk(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _walk(value, (*path, index))


def spots(text: str) -> Iterator[Spot]:
    """Keys and plain values of a YAML text that `parse_yaml` has read, in order."""
    yield from _spots(_compose(text)[0], ())


def _spots(node: object, path: Path_) -> Iterator[Spot]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "?")
            if isinstance(key, yaml.ScalarNode):
                yield _spot(key, inner, True)
            yield from _spots(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _spots(value, (*path, index))
    elif isinstance(node, yaml.ScalarNode):
        yield _spot(node, path, False)


def _spot(node: yaml.ScalarNode, path: Path_, is_key: bool) -> Spot:
    start, end = node.start_mark, node.end_mark
    return Spot(path, is_key, start.index, end.index, start.line + 1, node.style or "")


def reason(error: Exception) -> str:
    """Message of an exception, in our words where Python's own text is for programmers."""
    text = str(error)
    return (
        "a whole number of more than 4,300 digits"
        if "integer string conversion" in text
        else text[:200]
    )


def _size(count: int) -> str:
    return f"{count // 2**20} MiB"
