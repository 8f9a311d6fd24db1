"""The format of ingested data: a folder of files of columns, and what is in them.

    DIR/manifest.json                 the folder is data once it is there
    DIR/train-00000.safetensors ...   samples in order
    DIR/held-out-00000.safetensors    those to evaluate on

A file has up to `samples_per_file` samples, as tensors in the format of safetensors:

    indices  int32 or int64 [sum of lengths]  rows of all tables, category by category
    lengths  int32 [categories, samples]      values of each category; missing where all have one
    dense    float32 [samples, dense]
    labels   uint8 [samples]

So the values of a category for consecutive samples are next to each other, and a batch is one slice
for each category of a file that is mapped into memory. docs/guides/ingest.md describes the
manifest."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from armillary import documents, files
from armillary.errors import InputError, Problem

from ..tensor_files import Count, Record, Spec, Tensors, Writer, checksum
from .columns import Columns, join

SCHEMA = "armillary.data/1"
MANIFEST = "manifest.json"
SPLITS = ("train", "held-out")
_HELP = "a folder that `armillary ingest` wrote"


class Category(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A category of the data."""

    name: str
    rows: Annotated[int, msgspec.Meta(ge=1, le=2**48)] | None
    """Rows of its table; `None`: values are whole, and a trainer takes them modulo the rows."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of columns: its samples, size and checksums."""

    samples: Count
    record: Record


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Manifest of ingested data."""

    dense: tuple[str, ...]
    categories: tuple[Category, ...]
    splits: dict[str, tuple[File, ...]]
    recipe: dict[str, Any]
    sources: tuple[dict[str, Any], ...]

    def samples(self, split: str) -> int:
        """Samples of a split."""
        return sum(file.samples for file in self.splits[split])

    def text(self) -> str:
        """The manifest as JSON."""
        body = {"schema": SCHEMA, **msgspec.to_builtins(self)}
        body = json.loads(json.dumps(body))
        return json.dumps({**body, "checksum": checksum(body)}, indent=1) + "\n"


def is_dataset(path: Path) -> bool:
    """Whether a folder is ingested data."""
    return documents.is_file(path / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises `InputError`."""
    path = folder / MANIFEST
    body = documents.parse_json(documents.read_text(path, _HELP), str(path), _HELP)
    if not isinstance(body, dict) or "checksum" not in body:
        raise InputError([Problem(str(path), "", "can't be read: it is not a manifest", _HELP)])
    wanted = body.pop("checksum")
    if body.get("schema") != SCHEMA:
        said = f"has the format {str(body.get('schema'))[:100]}"
        raise InputError([Problem(str(path), "schema", said, SCHEMA)])
    if checksum(body) != wanted:
        raise InputError([Problem(str(path), "checksum", "is wrong", _HELP)])
    del body["schema"]
    try:
        found = msgspec.convert(body, Manifest)
    except msgspec.ValidationError as error:
        raise InputError([Problem(str(path), "", str(error), _HELP)]) from None
    _require_sound(found, str(path))
    return found


def _require_sound(manifest: Manifest, path: str) -> None:
    """Raises `InputError` for what types don't say: the splits, and names of files."""
    if manifest.splits.keys() != set(SPLITS):
        said = f"are {', '.join(manifest.splits)[:100]}"
        raise InputError([Problem(path, "splits", said, " and ".join(SPLITS))])
    for name in SPLITS:
        for file in manifest.splits[name]:
            if not documents.is_name(file.record.name):
                said = f"{file.record.name[:100]!r} is not a file of the folder"
                raise InputError([Problem(path, f"splits: {name}", said, _HELP)])
            if not file.samples:
                said = f"{file.record.name!r} has no samples"
                raise InputError([Problem(path, f"splits: {name}", said, _HELP)])


def open_file(folder: Path, file: File, categories: int, dense: int) -> Columns:
    """The columns of a file, mapped into memory, once all are compared with their checksums. Raises
    `InputError`."""
    path = folder / file.record.name
    try:
        found = Tensors.open(path, file.record)
        for key in file.record.tensors:
            found.check(key, "")
    except InputError as error:
        problems = [replace(each, help="the file as it was written") for each in error.problems]
        raise InputError(problems) from None
    _require_columns(found, path, (categories, file.samples, dense))
    read = {key: found.read(key) for key in found.specs}
    columns = Columns(
        read["labels"], read["dense"], read.get("lengths"), read["indices"], categories
    )
    _require_values(columns, path)
    return columns


def _require_columns(found: Tensors, path: Path, sizes: tuple[int, int, int]) -> None:
    """Raises `InputError` unless a file has tensors with `sizes`: numbers of categories, samples
    and dense columns."""
    categories, samples, dense = sizes
    shapes = {"labels": ("U8", (samples,)), "dense": ("F32", (samples, dense))}
    if "lengths" in found.specs:
        shapes["lengths"] = "I32", (categories, samples)
    for key, (kind, shape) in shapes.items():
        if key not in found.specs or found.specs[key][1:] != (kind, shape):
            raise _unlike(path, key, f"{kind} {list(shape)}")
    indices = found.specs.get("indices")
    whole = indices is not None and "lengths" not in found.specs
    if (
        indices is None
        or indices.dtype not in ("I32", "I64")
        or len(indices.shape) != 1
        or (whole and indices.shape[0] != categories * samples)
    ):
        raise _unlike(path, "indices", "I32 or I64, one for each value")


def _require_values(columns: Columns, path: Path) -> None:
    """Raises `InputError` for values that no file of `armillary ingest` has: a length or an index
    below 0, a label that is not 0 or 1."""
    if columns.lengths is not None and (
        (columns.lengths < 0).any() or columns.lengths.sum(dtype=np.int64) != len(columns.indices)
    ):
        raise _unlike(path, "lengths", "those of the indices")
    if (columns.labels > 1).any():
        raise _unlike(path, "labels", "0 or 1")
    if (columns.indices < 0).any():
        raise _unlike(path, "indices", "from 0 on")


def _unlike(path: Path, key: str, wanted: str) -> InputError:
    said = "is not what ingested data has there"
    return InputError([Problem(str(path), key, said, wanted)])


class Split:
    """Writes the samples of a split, in files of `each` samples."""

    def __init__(self, folder: Path, name: str, each: int) -> None:
        self._folder, self._name, self._each = folder, name, each
        self._waiting: list[Columns] = []
        self._held = 0
        self._thread = ThreadPoolExecutor(1)
        self._written: list[Future[File]] = []

    def add(self, columns: Columns) -> None:
        """More samples. Raises `OSError` when those before them could not be written."""
        while self._held + len(columns) >= self._each:
            need = self._each - self._held
            self._waiting.append(columns.cut(0, need))
            self._write()
            columns = columns.cut(need, len(columns))
        if len(columns):
            self._waiting.append(columns)
            self._held += len(columns)

    def end(self) -> tuple[File, ...]:
        """Writes what is left, and waits until all files are on the disk. Raises `OSError`."""
        if self._held:
            self._write()
        try:
            return tuple(each.result() for each in self._written)
        finally:
            self._thread.shutdown()

    def abandon(self) -> None:
        """Gives up."""
        self._thread.shutdown(cancel_futures=True)

    def _write(self) -> None:
        """Begins to write a file, when the one before is written."""
        if self._written:
            self._written[-1].result()
        path = self._folder / f"{self._name}-{len(self._written):05}.safetensors"
        self._written.append(self._thread.submit(_write_file, path, self._waiting))
        self._waiting, self._held = [], 0


def _write_file(path: Path, parts: Sequence[Columns]) -> File:
    columns = join(parts)
    wide = columns.indices.itemsize == 8
    arrays: dict[str, tuple[str, Any]] = {"indices": ("I64" if wide else "I32", columns.indices)}
    if columns.lengths is not None:
        arrays["lengths"] = "I32", columns.lengths
    arrays |= {"dense": ("F32", columns.dense), "labels": ("U8", columns.labels)}
    specs = [Spec(key, kind, values.shape) for key, (kind, values) in arrays.items()]
    writer = Writer(path, specs, {"schema": SCHEMA})
    try:
        for key, (_, values) in arrays.items():
            writer.write(key, values)
        return File(len(columns), writer.end())
    except OSError:
        writer.abandon()
        raise


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder for new data, held by this process. What an ingestion that ended early left there is
    removed first; an error leaves nothing behind.

    Raises `InputError`: the folder has data, another process writes to it, or it can't be
    written."""
    folder = Path(path)
    made = held = False
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("ab") as stream:
            try:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                said = "another process writes data here"
                raise InputError([Problem(str(path), "--output", said, "another folder")]) from None
            held = True
            if is_dataset(folder):
                said = "has data already"
                help_ = "another folder, or remove this one"
                raise InputError([Problem(str(path), "--output", said, help_)])
            _clear(folder)
            try:
                yield folder
            except BaseException:
                _clear(folder)
                raise
    except OSError as error:
        raise InputError(
            [
                Problem(
                    error.filename or str(path),
                    "--output",
                    f"can't be written: {error.strerror or error}",
                    "a folder that can be written, on a disk with space for the data",
                )
            ]
        ) from None
    finally:
        with contextlib.suppress(OSError):
            if held:
                (folder / "lock").unlink()
            if made:
                folder.rmdir()


def commit(folder: Path, manifest: Manifest) -> None:
    """Makes the files of a folder data. Raises `InputError`."""
    files.write_text(folder / MANIFEST, manifest.text())


def _clear(folder: Path) -> None:
    """Removes files of data that is not whole."""
    for name in (*SPLITS, "shuffle"):
        for path in folder.glob(f"{name}-[0-9]*"):
            path.unlink(missing_ok=True)
