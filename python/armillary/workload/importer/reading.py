"""Files to documents: JSON, SQLite, gzip, tar, recognized by content and never by the name's
ending.

Here: unpacking, and which kind of recording a document is. Not here: what is in it (`kineto.py`,
`host_trace.py`). Times stay exact: JSON numbers become `Decimal`, for a double holds microseconds
since 1970 only to a quarter of one."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from ... import documents, first_bytes, machine
from ...errors import InputError, Problem
from ...plain_pickle import RefusedError, plain
from .. import xla
from ..task_graphs import is_graph
from . import database, foreign

Args = dict[str, Any]

LONGEST_NAME = 65_536
"""Characters of a name that are looked at; those of templates have a few thousand."""
_MOST_PACKED = 8
_MOST_RATIO = 200
"""Unpacked over packed bytes: recordings have 5 to 60, and gzip can do 1,000."""
_ALWAYS = 64 * 2**20
"""Bytes that any file may unpack to."""
_DECODED = 3
"""Most bytes that a byte of a document takes while it and its decoded form are both in memory."""
_KNOWN = "traceEvents of a Kineto trace, or nodes of a PyTorch execution trace"
FLIGHT = "a dump of PyTorch's flight recorder, version 2 of its format"
SNAPSHOT = "a snapshot of torch.cuda.memory._dump_snapshot, or the same as JSON"
_PLAIN = f"{FLIGHT}; {SNAPSHOT}"
_MOST_PICKLED = 2**26
"""Operations of a pickle: 20,000 calls with the lines of their program have a tenth of it."""
_SPACES = (".xplane.pb", ".xplane.pb.gz")
_OF_PROFILES = (*_SPACES, ".trace.json.gz", ".hlo_proto.pb", ".hlo.pb", ".txt")
"""Files that are used of a folder with profiles of XLA."""
_READ = (".json", ".gz", ".et", ".pkl", ".pickle", ".sqlite", ".pb")
_RANKED = re.compile(r"rank[-_ ]?\d+$")
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_PHASE = re.compile(rb'"ph"\s*:')
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:{_PAIR}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{{2}})|.)", re.DOTALL)
"""Escapes in the order in which they stand, so that a backslash behind a backslash begins none."""


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; the arguments stay undecoded until somebody asks."""

    name: str = ""
    ph: str = ""
    cat: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")

    def arguments(self) -> Args:
        """The decoded `args`, empty where there are none."""
        try:
            found = msgspec.json.decode(self.args)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class KinetoDocument(msgspec.Struct, gc=False):
    """Parts of a Kineto trace (Chrome trace format) that are read."""

    traceEvents: list[Event]
    schemaVersion: int | str | None = None
    distributedInfo: Args | None = None
    deviceProperties: list[Args] | None = None
    baseTimeNanoseconds: int | None = None


class HostDocument(msgspec.Struct, gc=False):
    """Parts of a PyTorch execution trace (host operations) that are read."""

    nodes: list[Args]
    schema: str = ""
    pid: int = -1
    time: str = ""
    start_ts: int | None = None
    finish_ts: int | None = None


@dataclass(frozen=True)
class FlightDocument:
    """A dump of PyTorch's flight recorder as plain data, unchecked."""

    value: dict[Any, Any]


@dataclass(frozen=True)
class SnapshotDocument:
    """A snapshot of PyTorch's memory as plain data, unchecked."""

    value: dict[Any, Any]


@dataclass(frozen=True)
class GraphDocument:
    """A task graph of FlexFlow, not yet read."""

    data: bytes


@dataclass(frozen=True)
class ModuleDocument:
    """A module of XLA, text or protobuf, not yet read."""

    data: bytes


@dataclass(frozen=True)
class BuffersDocument:
    """XLA's assignment of buffers as text, not yet read."""

    data: bytes


@dataclass(frozen=True)
class XlaDocument:
    """A profile of XLA, not yet read: XSpace, or the document in Chrome's format made of it."""

    data: bytes | KinetoDocument


class RecordingKind(Enum):
    """Kind of a recorded file."""

    KINETO = "Kineto trace"
    HOST = "PyTorch execution trace"
    FLIGHT = "dump of PyTorch's flight recorder"
    MEMORY = "snapshot of PyTorch's memory"
    GRAPH = "task graph of FlexFlow"
    NSYS = "SQLite export of Nsight Systems"
    MODULE = "module of XLA"
    BUFFERS = "assignment of buffers by XLA"
    PROFILE = "profile of XLA"


@dataclass(frozen=True)
class NsysDocument:
    """An export of Nsight Systems, not yet read: its file, or what was packed."""

    source: Path | bytes


Document = (
    KinetoDocument
    | HostDocument
    | FlightDocument
    | SnapshotDocument
    | GraphDocument
    | NsysDocument
    | ModuleDocument
    | BuffersDocument
    | XlaDocument
)
_KINDS: dict[type, RecordingKind] = {
    KinetoDocument: RecordingKind.KINETO,
    HostDocument: RecordingKind.HOST,
    FlightDocument: RecordingKind.FLIGHT,
    SnapshotDocument: RecordingKind.MEMORY,
    GraphDocument: RecordingKind.GRAPH,
    NsysDocument: RecordingKind.NSYS,
    ModuleDocument: RecordingKind.MODULE,
    BuffersDocument: RecordingKind.BUFFERS,
    XlaDocument: RecordingKind.PROFILE,
}


@dataclass(frozen=True)
class Recording:
    """One document: its name (inside an archive: `archive: member`), bytes unpacked, and
    content."""

    file: str
    size: int
    document: Document

    @property
    def kind(self) -> RecordingKind:
        """The kind of its document."""
        return _KINDS[type(self.document)]

    @property
    def is_space(self) -> bool:
        """Whether it is a profile of XLA as its profiler wrote it."""
        return isinstance(self.document, XlaDocument) and isinstance(self.document.data, bytes)


@dataclass
class _Room:
    """Bytes that a file may still unpack to: bounded by memory, and by the usual compression of
    recordings."""

    name: str
    left: float
    why: str

    @classmethod
    def of(cls, name: str, packed: int) -> _Room:
        """The room of a file of `packed` bytes; a user who says how much memory there is has said
        it all."""
        free = machine.available()
        memory = math.inf if free is None else free / _DECODED
        ratio = math.inf if machine.is_given() else max(_ALWAYS, packed * _MOST_RATIO)
        if ratio < memory:
            return cls(name, ratio, f"{_MOST_RATIO} times its size, more than any recording")
        return cls(
            name, memory, f"{memory / 2**30:,.1f} GiB, more than this machine's memory can hold"
        )

    def take(self, stream: BinaryIO) -> bytes:
        """All that a stream holds. Raises `InputError` where that is more than there is room
        for."""
        data = documents.read_stream(stream, int(min(self.left, sys.maxsize - 1)) + 1)
        if len(data) > self.left:
            allowed = f"a recording, or {machine.VARIABLE} set to the memory it may take"
            raise InputError([Problem(self.name, "", f"holds more than {self.why}", allowed)])
        self.left -= len(data)
        return data


def unpack(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each document in `path`. Raises `InputError` for what can't be unpacked."""
    name = str(path)
    try:
        with documents.open_plain(path) as stream:
            data = _Room.of(name, sys.maxsize).take(stream)
        yield from _members(name, data, _Room.of(name, len(data)), 0)
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            [Problem(name, "", f"can't be read: {error}", "a whole file: JSON, gzip, tar")]
        ) from None


def _members(name: str, data: bytes, room: _Room, depth: int) -> Iterator[tuple[str, bytes]]:
    if depth > _MOST_PACKED:
        raise InputError(
            [
                Problem(
                    name,
                    "",
                    "is packed too many times",
                    f"at most {_MOST_PACKED} archives in another",
                )
            ]
        )
    if data[:2] == b"\x1f\x8b":
        with gzip.open(io.BytesIO(data)) as stream:
            inner = room.take(cast(BinaryIO, stream))
        del data
        yield from _members(name, inner, room, depth + 1)
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and not _is_clutter(member.name):
                    yield from _members(
                        f"{name}: {member.name}", room.take(cast(BinaryIO, file)), room, depth + 1
                    )
    else:
        yield name, data


def _is_clutter(name: str) -> bool:
    """Files that tar on a Mac adds, and the generated sources that PyTorch packs with a trace."""
    known = name.endswith(_READ) or _RANKED.search(name)
    return Path(name).name.startswith("._") or not known


def expand(paths: list[Path]) -> list[Path]:
    """Directories replaced by their files. Raises `InputError` naming every path that is not
    there."""
    there = [os.path.exists(path) for path in paths]  # noqa: PTH110 - as documents.is_file
    absent = [path for path, found in zip(paths, there, strict=True) if not found]
    missing = [Problem(str(path), "", "no such file or directory") for path in absent]
    if missing:
        raise InputError(missing)
    files: list[Path] = []
    for path in paths:
        inside = _inside(path) if documents.is_folder(path) else []
        files += inside or [path]
    return files


def _inside(folder: Path) -> list[Path]:
    """Files of a folder. JAX and TensorBoard write profiles into folders of their own, where
    TensorBoard keeps tables that it made of them. Raises `InputError` where there are several."""
    profiles = folder / "plugins" / "profile"
    if documents.is_folder(profiles):
        runs = sorted(each for each in profiles.iterdir() if documents.is_folder(each))
        if len(runs) > 1:
            said = f"has {len(runs)} profiles"
            allowed = ", ".join(str(each) for each in (*runs[:2], *runs[2:][-1:]))
            raise InputError([Problem(str(folder), "", said, f"one of them: {allowed}")])
        folder = runs[0] if runs else folder
    found = [
        each
        for each in sorted(folder.iterdir())
        if documents.is_file(each) and not each.name.startswith(".")
    ]
    if any(each.name.endswith(_SPACES) for each in found):
        return [each for each in found if each.name.endswith(_OF_PROFILES)]
    return found


def read(path: Path) -> list[Recording]:
    """Every recording in `path`. Raises `InputError` with the precise reason for each document that
    is none."""
    recordings: list[Recording] = []
    problems: list[Problem] = []
    if _is_database(path):
        # Such files may be larger than the memory, and are read where they are.
        return [Recording(str(path), path.stat().st_size, _database(str(path), path))]
    for name, data in unpack(path):
        try:
            recordings.append(Recording(name, len(data), decode(name, data)))
        except InputError as error:
            problems += error.problems
    if problems or not recordings:
        raise InputError(
            problems or [Problem(str(path), "", "holds no JSON file", "Kineto or PyTorch traces")]
        )
    return recordings


def decode(name: str, data: bytes) -> Document:
    """The document in `data`. Raises `InputError` saying what it is instead."""
    if data[:2] in first_bytes.PICKLED:
        return _unpickled(name, data)
    if data.startswith(database.MAGIC):
        return _database(name, data)
    if (whole := _whole_job(data)) is not None:
        return whole
    if problem := foreign.of_bytes(name, data):
        raise InputError([problem])
    if _is_list(data):
        data = _as_document(data)
    if (plain_json := _plain_json(name, data)) is not None:
        return plain_json
    if b'"traceEvents"' not in data and b'"nodes"' not in data:
        raise InputError([foreign.of_text(name, data)])
    wanted: type[KinetoDocument | HostDocument] = (
        KinetoDocument if b'"traceEvents"' in data else HostDocument
    )
    found: KinetoDocument | HostDocument
    try:
        found = msgspec.json.decode(data, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ArithmeticError) as fast:
        found = _decode_leniently(name, data, wanted, str(fast))
    if isinstance(found, KinetoDocument) and _is_profile(found):
        return XlaDocument(found)
    return found


def _is_profile(document: KinetoDocument) -> bool:
    """Whether a document in Chrome's format was made of a profile of XLA: its processes are
    planes, and its events have no category."""
    named = [
        str(each.arguments().get("name", ""))
        for each in document.traceEvents
        if each.ph == "M" and each.name == "process_name"
    ]
    return any(name.startswith(xla.PLANES) for name in named) and not any(
        each.cat for each in document.traceEvents
    )


def _is_database(path: Path) -> bool:
    """Whether a file itself, not packed, is a database. Others are opened, and refused, later."""
    try:
        with documents.open_plain(path) as stream:
            return documents.read_stream(stream, len(database.MAGIC)) == database.MAGIC
    except (OSError, ValueError):
        return False


def _database(name: str, source: Path | bytes) -> NsysDocument:
    """A database. Raises `InputError` for one that Nsight Systems did not write."""
    opened = database.Database(name, source)
    opened.close()
    if problem := foreign.of_tables(name, opened.tables):
        raise InputError([problem])
    return NsysDocument(source)


def _whole_job(data: bytes) -> Document | None:
    """A file that is about all ranks of a job; none for another one."""
    kinds = (
        (xla.is_module, ModuleDocument),
        (xla.is_buffers, BuffersDocument),
        (is_graph, GraphDocument),
        (xla.is_profile, XlaDocument),
    )
    return next((kind(data) for fits, kind in kinds if fits(data)), None)


def _unpickled(name: str, data: bytes) -> FlightDocument | SnapshotDocument:
    """A dump or a snapshot as PyTorch writes it: a pickle of plain data. Nothing in it is ever
    called."""
    try:
        value = plain(data, frozenset(), _MOST_PICKLED)
    except RefusedError as error:
        raise InputError([Problem(name, "", f"is a pickle that {error}", _PLAIN)]) from None
    if isinstance(value, dict) and "entries" in value:
        return FlightDocument(value)
    if isinstance(value, dict) and "segments" in value:
        return SnapshotDocument(value)
    raise InputError([Problem(name, "", "is a pickle of something else", _PLAIN)])


def _plain_json(name: str, data: bytes) -> FlightDocument | SnapshotDocument | None:
    """A dump or a snapshot as JSON; none for another document."""
    if b'"entries"' in data and b'"profiling_name"' in data and data.lstrip()[:1] == b"{":
        return FlightDocument(_mapping(name, data, FLIGHT))
    if first_bytes.may_be_snapshot(data[:64]):
        return SnapshotDocument(_mapping(name, data, SNAPSHOT))
    return None


def _mapping(name: str, data: bytes, allowed: str) -> dict[str, Any]:
    """A dump or a snapshot as JSON."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = f"can't be read: {documents.reason(error)}"
        raise InputError([Problem(name, "", said, allowed)]) from None


def shown(value: object) -> str:
    """A value for a message. Lists in a pickle may hold each other: they are not written out."""
    plain_value = value is None or isinstance(value, str | bool | int | float)
    return repr(value)[:40] if plain_value else f"a {type(value).__name__}"


def _is_list(data: bytes) -> bool:
    """Whether a document is a list of trace events, Chrome's other form: mappings with a phase."""
    return _LIST.match(data[:64]) is not None and _PHASE.search(data) is not None


def _as_document(data: bytes) -> bytes:
    """A list of trace events as a document. Chrome's format lets the end of the list be missing."""
    body = data.lstrip(b"\xef\xbb\xbf \t\r\n").rstrip()
    ended = body if body.endswith(b"]") else body.rstrip(b", \t\r\n") + b"]"
    return b'{"traceEvents":' + ended + b"}"


def _decode_leniently(
    name: str, data: bytes, wanted: type[KinetoDocument | HostDocument], fault: str
) -> KinetoDocument | HostDocument:
    """Again with the standard library, which takes NaN, control characters in strings and broken
    UTF-8."""
    try:
        text = _ESCAPE.sub(_whole, data.decode("utf-8", "replace"))
        value = json.loads(text, parse_float=_decimal, strict=False)
        for event in value.get("traceEvents", ()) if isinstance(value, dict) else ():
            event["args"] = msgspec.Raw(msgspec.json.encode(event.get("args") or {}))
        return msgspec.convert(value, wanted, strict=False)
    except RecursionError:
        raise InputError(
            [Problem(name, "", "is not a trace: it is nested too deeply", _KNOWN)]
        ) from None
    except (ValueError, ArithmeticError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        said = fault if "JSON" in fault else documents.reason(error)
        raise InputError([Problem(name, "", f"is not a trace: {said[:200]}", _KNOWN)]) from None


def _whole(escape: re.Match[str]) -> str:
    """An escape as it stands, but for half of a surrogate pair, which is not a character."""
    return "\\ufffd" if escape["half"] else escape[0]


def _decimal(text: str) -> Decimal:
    """A JSON number; one that even a decimal can't hold is none."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal("NaN")
