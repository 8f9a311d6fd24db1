"""Folders of `torch.distributed.checkpoint`: the tensors in them.

    .metadata          a pickle: for each tensor its type, shape and parts, and where these are
    __0_0.distcp ...   parts one behind the other, each as `torch.save` writes it

Here: reading them as data. Not here: names of parameters (`importing.py`). PyTorch's own reader is
not used: it unpickles `.metadata`, which runs code of whoever wrote the file."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.plain_pickle import RefusedError, Thing, plain

from .tensor_cover import MOST_PARTS, tiles
from .torch_save import TYPES, Saved, numbers

METADATA = ".metadata"
_LARGEST = 2**24
"""Bytes of `.metadata`."""
_HELP = "a folder that torch.distributed.checkpoint wrote, with tensors alone"
_META = "torch.distributed.checkpoint.metadata"
_SHARD = "torch.distributed._shard.sharded_tensor.metadata"
_NAMES = frozenset(
    {
        *TYPES,
        ("torch", "Size"),
        ("torch.serialization", "_get_layout"),
        (_META, "Metadata"),
        (_META, "TensorStorageMetadata"),
        (_META, "BytesStorageMetadata"),
        (_META, "ChunkStorageMetadata"),
        (_META, "TensorProperties"),
        (_META, "_MEM_FORMAT_ENCODING"),
        (_META, "MetadataIndex"),
        (_META, "StorageMeta"),
        (_SHARD, "TensorProperties"),  # before PyTorch 2.3
        (_SHARD, "MEM_FORMAT_ENCODING"),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("builtins", "getattr"),  # members of an enumeration, from Python 3.11.0 to 3.11.3
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),  # Python 3.13
    }
)
"""Names in `.metadata`. None of them is called."""


class _Part(NamedTuple):
    """A box of a tensor, and where it is stored."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    start: int
    length: int


class _Stored(NamedTuple):
    """A tensor in a folder."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    parts: Sequence[_Part]


def read_distributed(folder: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """The tensors of a folder whose names are `wanted`. Raises `InputError`."""
    path = folder / METADATA
    data = documents.read_bytes(path, _HELP, _LARGEST)
    try:
        stored = _stored(plain(data, _NAMES), wanted)
        _require_room(stored, folder)
    except RefusedError as error:
        raise InputError([Problem(str(path), "", f"can't be read: it {error}", _HELP)]) from None
    return {key: _read(folder, key, each) for key, each in stored.items()}


def _stored(metadata: Any, wanted: Callable[[str], bool]) -> dict[str, _Stored]:  # noqa: ANN401
    facts, places = _dict(_fields(metadata, "Metadata", "state_dict_metadata", "storage_data"))
    where = {}
    for index, info in places.items():
        key, offset = _fields(index, "MetadataIndex", "fqn", "offset")
        if isinstance(key, str) and wanted(key) and offset is not None:
            where[key, numbers(offset)] = info
    return {
        key: _tensor(key, each, where)
        for key, each in facts.items()
        if isinstance(key, str)
        and wanted(key)
        and isinstance(each, Thing)
        and each.name == (_META, "TensorStorageMetadata")
    }


def _tensor(key: str, facts: Thing, where: Mapping[tuple[str, tuple[int, ...]], Any]) -> _Stored:
    properties, size, chunks = _fields(
        facts, "TensorStorageMetadata", "properties", "size", "chunks"
    )
    dtype = _dtype(properties)
    shape = numbers(size)
    if not isinstance(chunks, list) or len(chunks) > MOST_PARTS:
        raise RefusedError(f"has no list of at most {MOST_PARTS:,} parts of {key[:100]!r}")
    parts = []
    for chunk in chunks:
        offsets, sizes = map(numbers, _fields(chunk, "ChunkStorageMetadata", "offsets", "sizes"))
        if (key, offsets) not in where:
            raise RefusedError(f"has no place of {key[:100]!r} at {list(offsets)}")
        parts.append(_Part(offsets, sizes, *_place(where[key, offsets])))
    boxes = [(part.offsets, part.sizes) for part in parts]
    if not tiles(boxes, shape):
        raise RefusedError(f"has parts of {key[:100]!r} that are not the whole once")
    return _Stored(dtype, shape, parts)


def _dtype(properties: Any) -> torch.dtype:  # noqa: ANN401
    """The type in a `TensorProperties`, whose state is a tuple."""
    state = properties.state if isinstance(properties, Thing) else None
    first = state[0] if isinstance(state, tuple) and state else None
    if not isinstance(first, Thing) or first.name not in TYPES:
        raise RefusedError("is damaged: a tensor without a type")
    return TYPES[first.name]


def _place(info: Any) -> tuple[str, int, int]:  # noqa: ANN401
    """File, first byte and number of bytes in a `_StorageInfo`."""
    names = "relative_path", "offset", "length", "transform_descriptors"
    path, start, length, transforms = _fields(info, "_StorageInfo", *names)
    if transforms:
        raise RefusedError("has parts that were transformed, such as compressed")
    if not isinstance(path, str) or not documents.is_name(path):
        raise RefusedError(f"names {str(path)[:100]!r}, which is not a file of the folder")
    start, length = numbers((start, length))
    return path, start, length


def _fields(thing: Any, name: str, *keys: str) -> list[Any]:  # noqa: ANN401
    if not isinstance(thing, Thing) or thing.name[1] != name:
        raise RefusedError(f"is damaged: it has no {name} where one belongs")
    return [thing.get(key) for key in keys]


def _dict(values: list[Any]) -> list[dict[Any, Any]]:
    if not all(isinstance(each, dict) for each in values):
        raise RefusedError("is damaged")
    return values


def _require_room(stored: Mapping[str, _Stored], folder: Path) -> None:
    """Each element has bytes in the folder: what is not there takes no memory."""
    claimed = sum(math.prod(each.shape) * each.dtype.itemsize for each in stored.values())
    names = {part.file for each in stored.values() for part in each.parts}
    there = sum((folder / name).stat().st_size for name in names if (folder / name).is_file())
    if claimed > there:
        raise RefusedError(f"has tensors of {claimed:,} bytes, and its files have {there:,}")


def _read(folder: Path, key: str, stored: _Stored) -> Tensor:
    found = torch.empty(stored.shape, dtype=stored.dtype)
    for part in stored.parts:
        path = folder / part.file
        try:
            value = _part(path, part)
        except RefusedError as error:
            raise InputError(
                [Problem(str(path), key, f"can't be read: it {error}", _HELP)]
            ) from None
        except OSError as error:
            said = f"can't be read: {error.strerror or error}"
            raise InputError([Problem(str(path), key, said, _HELP)]) from None
        box = tuple(slice(at, at + n) for at, n in zip(part.offsets, part.sizes, strict=True))
        found[box] = value
    return found


def _part(path: Path, part: _Part) -> Tensor:
    if not documents.is_file(path):
        raise RefusedError("is missing, or is not a file")
    with documents.open_plain(path) as stream:
        stream.seek(part.start)
        saved = Saved(io.BytesIO(documents.read_stream(stream, part.length)))
    value = saved.tensor(saved.value)
    if tuple(value.shape) != part.sizes:
        raise RefusedError(f"has the shape {list(value.shape)} instead of {list(part.sizes)}")
    return value
