"""Files of `torch.save` as data.

    NAME/data.pkl     a pickle: plain values, and for each tensor its shape and its storage
    NAME/data/KEY     the numbers of a storage

Here: the values of the pickle, and single tensors. Not here: which of them are parameters
(`importing.py`). `torch.load` is not used: it calls functions that the file names, and its list of
harmless ones had gaps in versions that we support."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from typing import IO, Any

import torch
from torch import Tensor

from armillary.plain_pickle import STORED, RefusedError, Thing, plain

_LARGEST = 2**26
"""Bytes of a pickle."""
_TENSOR = "_rebuild_tensor_v2"
_WRAPPED = {"_rebuild_parameter", "_rebuild_parameter_with_state"}
TYPES = {
    ("torch", name): kind
    for name in dir(torch)
    if isinstance(kind := getattr(torch, name), torch.dtype)
}
"""Types of numbers by their names in pickles."""
_STORAGES = {
    ("torch", "DoubleStorage"): torch.float64,
    ("torch", "FloatStorage"): torch.float32,
    ("torch", "HalfStorage"): torch.float16,
    ("torch", "BFloat16Storage"): torch.bfloat16,
    ("torch", "LongStorage"): torch.int64,
    ("torch", "IntStorage"): torch.int32,
    ("torch", "ShortStorage"): torch.int16,
    ("torch", "CharStorage"): torch.int8,
    ("torch", "ByteStorage"): torch.uint8,
    ("torch", "BoolStorage"): torch.bool,
}
_NAMES = frozenset(
    {
        *TYPES,
        *_STORAGES,
        *(("torch._utils", name) for name in (_TENSOR, *_WRAPPED)),
        ("collections", "OrderedDict"),
        ("torch", "Size"),
        ("torch", "device"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "scalar"),
        ("_codecs", "encode"),
    }
)
"""Names in the pickle. None of them is called."""


class Saved:
    """A file of `torch.save` that is open."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Reads the values. Raises `RefusedError`, and `OSError` if the disk fails."""
        try:
            self._archive = zipfile.ZipFile(stream)
        except _DAMAGES:
            raise RefusedError(
                "is not an archive that torch.save wrote since PyTorch 1.6"
            ) from None
        self._storages: dict[str, bytearray] = {}
        entries = self._archive.infolist()
        if sum(each.file_size for each in entries) > stream.seek(0, io.SEEK_END):
            raise RefusedError("is damaged: its parts are larger than the whole")
        names = [each for each in self._archive.namelist() if each.count("/") == 1]
        roots = [each.removesuffix("/data.pkl") for each in names if each.endswith("/data.pkl")]
        if len(roots) != 1:
            raise RefusedError("is an archive without data.pkl")
        self._root = roots[0]
        order = f"{self._root}/byteorder"
        if order in names and self._read(order, 16) != b"little":
            raise RefusedError("has its numbers in the order of another machine (big-endian)")
        self.value = plain(self._read(f"{self._root}/data.pkl", _LARGEST), _NAMES)

    def tensor(self, thing: Any) -> Tensor:  # noqa: ANN401
        """A tensor of the values. Raises `RefusedError`, and `OSError` if the disk fails."""
        storage, kind, offset, shape, strides = _facts(thing)
        if storage not in self._storages:  # Several tensors may share one.
            content = self._read(f"{self._root}/data/{storage}", None)
            self._storages[storage] = bytearray(content)
        data = self._storages[storage]
        if math.prod(shape) == 0:
            return torch.empty(shape, dtype=kind)
        last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        if (max(last + 1, math.prod(shape))) * kind.itemsize > len(data):
            raise RefusedError("is damaged: a tensor is larger than what is stored of it")
        whole = torch.frombuffer(data, dtype=kind, count=len(data) // kind.itemsize)
        return whole.as_strided(shape, strides, offset)

    def _read(self, name: str, most: int | None) -> bytes:
        try:
            entry = self._archive.getinfo(name)
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise RefusedError("is compressed, which torch.save never does")
            if most is not None and entry.file_size > most:
                raise RefusedError(f"has {entry.file_size:,} bytes in {name[-50:]!r}")
            return self._archive.read(entry)
        except RefusedError:
            raise
        except _DAMAGES:
            raise RefusedError(f"is damaged at {name[-50:]!r}") from None


_DAMAGES = (
    zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError,
    RuntimeError,
)  # fmt: skip
"""Errors that the library of archives raises for damaged ones."""


def is_tensor(thing: object) -> bool:
    """Whether a value is a tensor that `Saved.tensor` reads."""
    return isinstance(_unwrapped(thing), Thing)


def size_of(thing: object) -> int:
    """Bytes of a tensor's elements. Raises `RefusedError`."""
    _, kind, _, shape, _ = _facts(thing)
    return math.prod(shape) * kind.itemsize


def _unwrapped(thing: object) -> Thing | None:
    """The tensor itself, of a parameter too."""
    for _ in range(2):
        if not isinstance(thing, Thing) or thing.name[0] != "torch._utils":
            return None
        if thing.name[1] == _TENSOR:
            return thing
        thing = thing.arguments[0] if thing.arguments else None
    return None


def _facts(thing: object) -> tuple[str, torch.dtype, int, tuple[int, ...], tuple[int, ...]]:
    """Key of the storage, type, first element, shape and strides of a tensor."""
    found = _unwrapped(thing)
    arguments = found.arguments if found is not None else ()
    if len(arguments) < 4 or not isinstance(arguments[0], Thing):
        raise RefusedError("is damaged: something is not a tensor")
    storage, offset, shape, strides = arguments[:4]
    where = storage.arguments
    if storage.name != STORED or len(where) != 5 or where[0] != "storage":
        raise RefusedError("is damaged: a tensor without a storage")
    kind = _STORAGES.get(where[1].name) if isinstance(where[1], Thing) else None
    if kind is None or not isinstance(where[2], str):
        raise RefusedError("is damaged: a storage without a type")
    shape, strides = numbers(shape), numbers(strides)
    if len(shape) != len(strides):
        raise RefusedError("is damaged: a shape does not fit its strides")
    (first,) = numbers((offset,))
    return where[2], kind, first, shape, strides


def numbers(found: object) -> tuple[int, ...]:
    """Sizes of a tensor, or places in it. Raises `RefusedError`."""
    if isinstance(found, Thing) and found.name == ("torch", "Size") and found.arguments:
        found = found.arguments[0]
    if not isinstance(found, tuple) or len(found) > 8:
        raise RefusedError("is damaged: a size is missing")
    if not all(type(each) is int and 0 <= each < 2**48 for each in found):
        raise RefusedError("is damaged: a size is out of range")
    return found
