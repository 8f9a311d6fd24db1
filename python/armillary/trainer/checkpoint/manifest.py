"""What a checkpoint says about itself.

Here: the manifest as data, and as JSON with a checksum. Not here: folders (`folder.py`), the
tensors (`tensors.py`)."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .tensors import Record, damaged

FORMAT = "armillary.checkpoint/1"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole table, and what is stored of it."""

    name: str
    rows: int
    dim: int
    dtype: str
    """Type of its elements, by its name in safetensors."""
    state: dict[str, bool]
    """Parts of the optimizer's state, and whether they are one number for each row."""

    def width(self, part: str) -> int | None:
        """Numbers of a row of a part; `None` if a row has one number."""
        return None if self.state.get(part) else self.dim


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of a table's rows and columns in a file."""

    table: str
    part: str
    """`weight`, or the name of the state."""
    rows: tuple[int, int]
    columns: tuple[int, int]
    file: str
    changed: int | None
    """How many of the rows are there: those that changed. `None`: all of them."""
    kind: str
    """Type of the stored elements."""

    @property
    def key(self) -> str:
        """The tensor's name in the file."""
        return self.named(self.part)

    def named(self, part: str) -> str:
        """The name of another tensor with the same rows and columns, such as `rows` (numbers of the
        rows in the whole table), `scale` or `offset`."""
        place = f"{self.rows[0]}:{self.rows[1]},{self.columns[0]}:{self.columns[1]}"
        return f"{self.table}.{part}[{place}]"

    @property
    def keys(self) -> list[str]:
        """The tensors that belong to the entry."""
        found = [self.key]
        if self.changed is not None:
            found.append(self.named("rows"))
        if self.part == "weight" and self.kind == "U8":
            found += [self.named("scale"), self.named("offset")]
        return found


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank wrote."""

    run: str
    record: Record
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a checkpoint has, besides the tensors."""

    step: int
    base: int | None
    """The step of the checkpoint that this one builds on; `None`: it has all rows."""
    run: str
    """A name of the run that wrote it, drawn by chance."""
    ranks: int
    precision: str | None
    """Numbers that weights are stored in; `None`: those of the tables."""
    settings: dict[str, Any] | None
    """Settings of the run; `None` if it was imported."""
    progress: dict[str, Any]
    """Where the run was."""
    tables: tuple[Stored, ...]
    files: tuple[Record, ...]
    entries: tuple[Entry, ...]
    _of: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.bytes for file in self.files)

    @property
    def table_keys(self) -> dict[str, str]:
        """The table of each tensor that belongs to one, by file and key."""
        return {f"{entry.file}/{key}": entry.table for entry in self.entries for key in entry.keys}

    def of(self, table: str, part: str) -> list[Entry]:
        """The entries of a part of a table."""
        if not self._of:
            for entry in self.entries:
                self._of.setdefault((entry.table, entry.part), []).append(entry)
        return self._of.get((table, part), [])

    def text(self) -> str:
        """The manifest as JSON."""
        body = {"format": FORMAT, **asdict(self)}
        del body["_of"]
        return json.dumps({**body, "checksum": _checksum(body)}, indent=1)


def parse(text: str, path: Path) -> Manifest:
    """The manifest in a file's text. Raises `InputError`."""
    try:
        body = json.loads(text)
        wanted = body.pop("checksum")
        if body.pop("format") != FORMAT:
            raise damaged(path, "format", f"is not {FORMAT}")
        if _checksum({"format": FORMAT, **body}) != wanted:
            raise damaged(path, "checksum", "is wrong")
        tables = tuple(Stored(**each) for each in body.pop("tables"))
        files = tuple(Record(**each) for each in body.pop("files"))
        entries = tuple(_entry(each) for each in body.pop("entries"))
        return Manifest(tables=tables, files=files, entries=entries, **body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if hasattr(error, "problems"):
            raise
        raise damaged(path, "", "is not the manifest of a checkpoint") from None


def share_text(share: Share) -> str:
    """A share as JSON."""
    return json.dumps(asdict(share))


def share_of(text: str) -> Share:
    """The share in a text that `share_text` wrote."""
    body = json.loads(text)
    entries = tuple(_entry(each) for each in body["entries"])
    return Share(body["run"], Record(**body["record"]), entries)


def _entry(values: dict[str, Any]) -> Entry:
    return Entry(**{**values, "rows": tuple(values["rows"]), "columns": tuple(values["columns"])})


def _checksum(body: dict[str, Any]) -> int:
    # As it is read again: JSON has no tuples, and keys that are strings.
    text = json.dumps(json.loads(json.dumps(body)), sort_keys=True, separators=(",", ":"))
    return zlib.crc32(text.encode())
