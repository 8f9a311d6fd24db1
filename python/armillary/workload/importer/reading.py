"""Files to documents: JSON, gzip, tar; told apart by content, never by the name's ending.

Here: unpacking, and which kind of recording a document is. Not here: what is in it (`kineto.py`, `host_trace.py`).
Times stay exact: JSON numbers become `Decimal`, for a double holds microseconds since 1970 only to a quarter of one.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InputError, Problem

Args = dict[str, Any]


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
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return found if isinstance(found, dict) else {}


class KinetoDocument(msgspec.Struct, gc=False):
    """What is read of a Kineto trace (Chrome trace format)."""

    traceEvents: list[Event]
    schemaVersion: int | str | None = None
    distributedInfo: Args | None = None
    deviceProperties: list[Args] | None = None
    baseTimeNanoseconds: int | None = None


class HostDocument(msgspec.Struct, gc=False):
    """What is read of a PyTorch execution trace (host operations)."""

    nodes: list[Args]
    schema: str = ""
    pid: int = -1
    time: str = ""
    start_ts: int | None = None
    finish_ts: int | None = None


class Kind(Enum):
    """What a file turns out to be."""

    KINETO = "Kineto trace"
    HOST = "PyTorch execution trace"


@dataclass(frozen=True)
class Recording:
    """One document: its name (inside an archive: `archive: member`), bytes unpacked, and content."""

    file: str
    size: int
    document: KinetoDocument | HostDocument

    @property
    def kind(self) -> Kind:
        """Kineto or host trace."""
        return Kind.KINETO if isinstance(self.document, KinetoDocument) else Kind.HOST


def unpack(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each document in `path`. Raises `InputError` for what can't be unpacked."""
    name = str(path)
    try:
        data = path.read_bytes()
        yield from _members(name, data)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise InputError([Problem(name, "", f"can't be read: {error}", "a whole file: JSON, gzip, tar")]) from None


def _members(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    while data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and not _is_clutter(member.name):
                    yield from _members(f"{name}: {member.name}", file.read())
    else:
        yield name, data


def _is_clutter(name: str) -> bool:
    """Files that tar on a Mac adds, and the generated sources that PyTorch packs beside a trace."""
    return Path(name).name.startswith("._") or not name.endswith((".json", ".gz", ".et"))


def expand(paths: list[Path]) -> list[Path]:
    """Directories replaced by their files. Raises `InputError` naming every path that is not there."""
    missing = [Problem(str(path), "", "no such file or directory") for path in paths if not path.exists()]
    if missing:
        raise InputError(missing)
    files: list[Path] = []
    for path in paths:
        inside = (
            sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")) if path.is_dir() else []
        )
        files += inside or [path]
    return files


def read(path: Path) -> list[Recording]:
    """Every recording in `path`. Raises `InputError` with the precise reason for each document that is none."""
    recordings, problems = [], []
    for name, data in unpack(path):
        try:
            recordings.append(Recording(name, len(data), decode(name, data)))
        except InputError as error:
            problems += error.problems
    if problems or not recordings:
        raise InputError(problems or [Problem(str(path), "", "holds no JSON file", "Kineto or PyTorch traces")])
    return recordings


def decode(name: str, data: bytes) -> KinetoDocument | HostDocument:
    """The document in `data`. Raises `InputError` saying what it is instead."""
    head = data[:4096].lstrip()
    if b'"traceEvents"' not in data and b'"nodes"' not in data:
        raise InputError([_foreign(name, data, head)])
    wanted: type[KinetoDocument | HostDocument] = KinetoDocument if b'"traceEvents"' in data else HostDocument
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as fast:
        return _decode_leniently(name, data, wanted, str(fast))


def _decode_leniently(
    name: str, data: bytes, wanted: type[KinetoDocument | HostDocument], fault: str
) -> KinetoDocument | HostDocument:
    """Again with the standard library, which takes NaN, control characters in strings and broken UTF-8."""
    try:
        value = json.loads(data.decode("utf-8", "replace"), parse_float=Decimal, strict=False)
        for event in value.get("traceEvents", ()) if isinstance(value, dict) else ():
            event["args"] = msgspec.Raw(msgspec.json.encode(event.get("args") or {}))
        return msgspec.convert(value, wanted, strict=False)
    except (json.JSONDecodeError, msgspec.ValidationError, TypeError, AttributeError) as error:
        known = "traceEvents of a Kineto trace, or nodes of a PyTorch execution trace"
        raise InputError([Problem(name, "", f"is no trace: {fault if 'JSON' in fault else error}", known)]) from None


def _foreign(name: str, data: bytes, head: bytes) -> Problem:
    """What a document that is no PyTorch recording is, as far as its first bytes tell."""
    wanted = "Kineto traces (traceEvents) and PyTorch execution traces (nodes), plain, gzip or tar"
    if not data.strip():
        return Problem(name, "", "is empty", wanted)
    if b'"workload_graph"' in data or _is_protobuf(head):
        return Problem(name, "", "is a Chakra trace, linked and converted already", "armillary run reads it as it is")
    if b"NPKIT_EVENT" in head:
        return Problem(name, "", "is a summary of NPKit events inside NCCL kernels, no run of a model", wanted)
    if head[:1] == b"[":
        return Problem(name, "", "is a list: a memory timeline holds bytes over time, no operations", wanted)
    if head[:1] != b"{":
        what = "a table of comma-separated values" if _is_table(head) else "no JSON"
        return Problem(name, "", f"is {what}", wanted)
    return Problem(name, "", "is JSON without traceEvents and without nodes", wanted)


def _is_protobuf(head: bytes) -> bool:
    """Whether a file begins as Chakra's binary traces do: a short message, with a version or the word schema first."""
    return head[:1] not in b"[{" and (head[1:2] == b"\n" or b"schema" in head[:64]) and min(head[:16], default=9) < 9


def _is_table(head: bytes) -> bool:
    """Whether the first line separates words by commas alone, as prose and YAML don't."""
    first = head.split(b"\n")[0]
    return b"," in first and b", " not in first
