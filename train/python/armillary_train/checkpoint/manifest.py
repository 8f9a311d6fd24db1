"""Manifest of a checkpoint.

Here: the manifest as data, and as JSON with a checksum; what must be true of any. Not here: folders
(`folder.py`), the tensors (`tensor_files.py`). The checksum protects against chance only: anybody
can compute it, so nothing in a manifest is trusted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from armillary import documents
from armillary.model.dlrm import INTERACTIONS

from ..settings import CheckpointPrecision
from ..tensor_files import Count, Name, Record, checksum, damaged
from .precision import parts_of

FORMAT = "armillary.checkpoint/1"
MANIFEST = "manifest.json"
_HELP = "a checkpoint that `armillary train` wrote"
_Range = tuple[Count, Count]
StoredType = Literal["F32", "F16", "BF16"]
"""Types of the elements of tables, by their names in safetensors."""


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole table, and what is stored of it."""

    name: Name
    rows: Count
    dim: Count
    dtype: StoredType
    """Type of its elements, by its name in safetensors."""
    state: dict[Name, bool]
    """Parts of the optimizer's state, and whether they are one number for each row."""

    def width(self, part: str) -> int | None:
        """Numbers of a row of a part; `None` if a row has one number."""
        return None if self.state.get(part) else self.dim


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a table's rows and columns in a file."""

    table: Name
    part: Name
    """`weight`, or the name of the state."""
    rows: _Range
    columns: _Range
    file: str
    changed: Count | None
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

    def specs(self, table: Stored) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each of these tensors."""
        count = self.rows[1] - self.rows[0] if self.changed is None else self.changed
        across = self.columns[1] - self.columns[0]
        flat = self.part != "weight" and table.state[self.part]
        found: dict[str, tuple[str, tuple[int, ...]]]
        found = {self.key: (self.kind, (count,) if flat else (count, across))}
        others = [("rows", "I64")] if self.changed is not None else []
        if self.part == "weight" and self.kind == "U8":
            others += [("scale", "F32"), ("offset", "F32")]
        return found | {self.named(name): (kind, (count,)) for name, kind in others}


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Part of a checkpoint that one rank wrote."""

    run: str
    record: Record
    entries: tuple[Entry, ...]


class Scores(TypedDict):
    """Scores of an evaluation, `None` for those that are not determined."""

    samples: Count
    loss: float | None
    ne: float | None
    auc: float | None
    auc_error: float | None
    calibration: float | None
    positive_rate: float | None


class Evaluation(Scores):
    """Scores after a step, with the number of samples trained."""

    step: Count
    trained: Count


class _Position(TypedDict):
    epoch: Count
    sample: Count


class Reached(TypedDict):
    """Place of the run."""

    updates: Count
    steps: Count
    samples: Count
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    evaluations: list[Evaluation]
    bound: Scores | None
    position: _Position
    interaction: str
    data: NotRequired[str | None]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All that a checkpoint has, besides the tensors."""

    step: Count
    base: Count | None
    """The step of the checkpoint that this one builds on; `None`: it has all rows."""
    run: str
    """A name of the run that wrote it, drawn by chance."""
    ranks: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    precision: CheckpointPrecision | None
    """Numbers that weights are stored in; `None`: those of the tables."""
    settings: dict[str, Any] | None
    """Settings of the run; `None` if it was imported."""
    progress: Reached
    tables: tuple[Stored, ...]
    files: tuple[Record, ...]
    entries: tuple[Entry, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.bytes for file in self.files)

    @property
    def table_keys(self) -> dict[str, str]:
        """The table of each tensor that belongs to one, by file and key."""
        return {f"{entry.file}/{key}": entry.table for entry in self.entries for key in entry.keys}

    @cached_property
    def _of(self) -> dict[tuple[str, str], list[Entry]]:
        found: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            found.setdefault((entry.table, entry.part), []).append(entry)
        return found

    def of(self, table: str, part: str) -> list[Entry]:
        """The entries of a part of a table."""
        return self._of.get((table, part), [])

    def text(self) -> str:
        """The manifest as JSON."""
        body = {"format": FORMAT, **msgspec.to_builtins(self)}
        body = json.loads(json.dumps(body))
        return json.dumps({**body, "checksum": checksum(body)}, indent=1)


def parse(text: str, path: Path) -> Manifest:
    """The manifest in a file's text. Raises `InputError`."""
    body = documents.parse_json(text, str(path), _HELP, finite=False)
    if not isinstance(body, dict) or "checksum" not in body:
        raise damaged(path, "", "is not the manifest of a checkpoint")
    wanted = body.pop("checksum")
    if body.get("format") != FORMAT:
        raise damaged(path, "format", f"is not {FORMAT}")
    if checksum(body) != wanted:
        raise damaged(path, "checksum", "is wrong")
    del body["format"]
    try:
        found = msgspec.convert(body, Manifest)
    except msgspec.ValidationError as error:
        raise damaged(path, "", f"is not the manifest of a checkpoint: {error}") from None
    for place, said in _faults(found):
        raise damaged(path, place, said)
    return found


def _faults(found: Manifest) -> Iterator[tuple[str, str]]:
    """Contradictions of a manifest, with their places."""
    if found.base is not None and found.base >= found.step:
        yield "base", f"is step {found.base}, which is not before step {found.step}"
    if found.progress["interaction"] not in INTERACTIONS:
        yield "progress.interaction", f"is {found.progress['interaction'][:40]!r}"
    if found.settings is not None and not isinstance(found.settings.get("model"), str):
        yield "settings.model", "is missing"
    for file in found.files:
        if not documents.is_name(file.name):
            yield "files", f"{file.name[:100]!r} is not a file of the folder"
    names = [("files", [each.name for each in found.files])]
    names += [("tables", [each.name for each in found.tables])]
    for place, some in names:
        for name, count in Counter(some).items():
            if count > 1:
                yield place, f"{name[:100]!r} is there {count} times"
    tables = {each.name: each for each in found.tables}
    files = {each.name: each for each in found.files}
    for entry in found.entries:
        said = _fault(entry, tables.get(entry.table), files.get(entry.file), found)
        if said:
            yield f"table {entry.table!r}", said


def _fault(
    entry: Entry, table: Stored | None, file: Record | None, manifest: Manifest
) -> str | None:
    """Faults of an entry."""
    if table is None or file is None:
        return "is not in the list of tables" if table is None else "has an unknown file"
    if entry.part != "weight" and entry.part not in table.state:
        return f"has the unknown state {entry.part[:40]!r}"
    (first, last), (left, right) = entry.rows, entry.columns
    if not first <= last <= table.rows or not left <= right <= table.dim:
        return f"has rows {first}:{last} and columns {left}:{right} outside of the table"
    if entry.changed is not None and (manifest.base is None or entry.changed > last - first):
        return f"has {entry.changed:,} changed rows of {last - first:,}"
    kinds = {"F32"}
    if entry.part == "weight":
        kinds = {parts_of(table.dtype, 1, manifest.precision)["weight"][0]}
    if entry.kind not in kinds:
        return f"has elements of the type {entry.kind[:40]!r}"
    missing = [key for key in entry.keys if key not in file.tensors]
    return f"has no checksum of {missing[0][:100]!r}" if missing else None


def share_text(share: Share) -> str:
    """A share as JSON."""
    return msgspec.json.encode(share).decode()


def share_of(text: str) -> Share:
    """The share in a text that `share_text` wrote. Raises `ValueError`."""
    return msgspec.json.decode(text, type=Share)
