"""Content of a checkpoint: rows of tables, whichever ranks and steps wrote them, and all other
tensors.

Here: reading and checking. Not here: what becomes of it (`restore.py`, `export.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tensor_files import TYPES, Tensors, damaged
from .folder import Folder
from .manifest import MANIFEST, Entry, Manifest, Stored
from .precision import decode
from .tensor_cover import tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Content:
    """A checkpoint together with those that it builds on."""

    def __init__(self, folder: Folder, step: int) -> None:
        """Reads the manifests and the headers of files. Raises `InputError`."""
        self.folder = folder
        self.chain = folder.chain(step)
        self.last = self.chain[-1]
        self.tables = {table.name: table for table in self.last.tables}
        self._files = {
            (manifest.step, record.name): Tensors.open(
                folder.of(manifest.step) / record.name, record
            )
            for manifest in self.chain
            for record in manifest.files
        }
        for manifest in self.chain:
            self._require_layout(manifest)
        for table in self.last.tables:
            for part in ("weight", *table.state):
                self._require_whole(table, part)

    def _require_layout(self, manifest: Manifest) -> None:
        """The tensors of rows have the types and shapes that the manifest says, and the tables are
        those of the last checkpoint."""
        path = self.folder.of(manifest.step)
        if manifest.tables != self.last.tables:
            raise damaged(path / MANIFEST, "tables", f"are not those of step {self.last.step}")
        for entry in manifest.entries:
            found = self._files[manifest.step, entry.file].specs
            for key, wanted in entry.specs(self.tables[entry.table]).items():
                if key not in found or found[key][1:] != wanted:
                    said = f"{key[:100]!r} is not a tensor of {wanted[0]} {list(wanted[1])}"
                    raise damaged(path / entry.file, f"table {entry.table!r}", said)

    def _require_whole(self, table: Stored, part: str) -> None:
        """Every element of a part of a table is in the first checkpoint, once."""
        entries = self.chain[0].of(table.name, part)
        if not entries and part != "weight":
            return  # Imported weights come without state.
        boxes = [
            ((rows[0], columns[0]), (rows[1] - rows[0], columns[1] - columns[0]))
            for rows, columns in ((each.rows, each.columns) for each in entries)
        ]
        if not tiles(boxes, (table.rows, table.dim)):
            path = self.folder.of(self.chain[0].step) / MANIFEST
            cells = sum(rows * columns for _, (rows, columns) in boxes)
            said = f"has {cells:,} of {table.rows * table.dim:,} elements of {part!r}"
            said += ", or some twice"
            raise damaged(path, f"table {table.name!r}", said)

    def check(self, rank: int = 0, ranks: int = 1) -> None:
        """Compares this rank's share of the files with their checksums. Raises `InputError`: it
        names the file and the table."""
        left = [0] * ranks
        sizes = [(file.specs[key].bytes, file, key, place) for file, key, place in self._all()]
        for size, file, key, place in sorted(sizes, key=lambda each: -each[0]):
            whose = left.index(min(left))
            left[whose] += size + 1
            if whose == rank:
                file.check(key, place)

    def _all(self) -> Iterator[tuple[Tensors, str, str]]:
        """The tensors that are needed: their file, their key, and what they belong to."""
        for manifest in self.chain:
            of_tables = manifest.table_keys
            for record in manifest.files:
                file = self._files[manifest.step, record.name]
                for key in record.tensors:
                    table = of_tables.get(f"{record.name}/{key}")
                    place = f"table {table!r}" if table else key
                    if key not in file.specs:
                        raise damaged(file.path, place, "is missing")
                    if manifest is self.last or table is not None:
                        yield file, key, place

    def has(self, table: str, part: str) -> bool:
        """Whether a part of a table is there. Imported weights come without state."""
        return bool(self.chain[0].of(table, part))

    def rows(self, table: str, part: str, rows: range, columns: range) -> NDArray[Any]:
        """Rows and columns of a part of a table: [rows, columns], or [rows] of state that is one
        number for each row. bfloat16 comes as its bits."""
        facts = self.tables[table]
        dtype = facts.dtype if part == "weight" else "F32"
        flat = facts.width(part) is None
        shape = (len(rows),) if flat else (len(rows), len(columns))
        out = np.empty(shape, TYPES[dtype])
        for manifest in self.chain:
            for entry in manifest.of(table, part):
                across = range(max(columns.start, entry.columns[0]),
                               min(columns.stop, entry.columns[1]))  # fmt: skip
                if across:
                    self._overlay(out, manifest, entry, rows, columns, across, dtype)
        return out

    def _overlay(
        self,
        out: NDArray[Any],
        manifest: Manifest,
        entry: Entry,
        rows: range,
        columns: range,
        across: range,
        dtype: str,
    ) -> None:
        """Puts what an entry has of `rows` and of the columns `across` in its place."""
        file = self._files[manifest.step, entry.file]
        if entry.changed is None:
            first = max(rows.start, entry.rows[0])
            last = min(rows.stop, entry.rows[1])
            if first >= last:
                return
            some = slice(first - entry.rows[0], last - entry.rows[0])
            places: Any = slice(first - rows.start, last - rows.start)
        else:
            numbers = file.read(entry.named("rows"))
            start, stop = np.searchsorted(numbers, (rows.start, rows.stop))
            if start == stop:
                return
            some = slice(int(start), int(stop))
            places = np.asarray(numbers[some]) - rows.start
            if places[0] < 0 or places[-1] >= len(rows) or (np.diff(places) <= 0).any():
                raise damaged(file.path, f"table {entry.table!r}", "its rows are out of order")
        stored = {"weight": np.asarray(file.read(entry.key)[some])}
        if entry.part == "weight" and entry.kind == "U8":
            stored["scale"] = np.asarray(file.read(entry.named("scale"))[some])
            stored["offset"] = np.asarray(file.read(entry.named("offset"))[some])
        values = decode(stored, entry.kind, dtype)
        if out.ndim == 1:
            out[places] = values
            return
        to = slice(across.start - columns.start, across.stop - columns.start)
        of = slice(across.start - entry.columns[0], across.stop - entry.columns[0])
        if isinstance(places, slice):
            out[places, to] = values[:, of]
        else:
            out[places, to.start : to.stop] = values[:, of]

    def tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The tensors of the last checkpoint whose names start with `prefix`, without it."""
        return {
            key.removeprefix(prefix): np.array(self._files[self.last.step, record.name].read(key))
            for record in self.last.files
            for key in record.tensors
            if key.startswith(prefix)
        }

    def kinds(self, prefix: str) -> dict[str, str]:
        """Types of the elements of `tensors`, by their names in safetensors."""
        return {
            key.removeprefix(prefix): self._files[self.last.step, record.name].specs[key].dtype
            for record in self.last.files
            for key in record.tensors
            if key.startswith(prefix)
        }
