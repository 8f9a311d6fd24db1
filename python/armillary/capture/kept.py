"""Captures of configurations, kept on disk in the user's cache.

A file holds a checksum and the capture as JSON. Its name is a digest of all that decides about a
capture: the configuration, micro-batch and sequence, the versions of PyTorch and transformers, and
the files of this package. What cannot be read is captured again. The oldest files are removed where
they take more than `MOST_BYTES` together."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import documents, files
from .result import Capture

MOST_BYTES = 2**28
"""Bytes of all captures."""
_LARGEST = 2**26
"""Bytes of one capture."""


def capture(
    values: Mapping[str, Any],
    batch: int,
    sequence: int,
    make: Callable[[], Capture],
    *more: object,
) -> Capture:
    """The capture of a configuration: as kept, or made now and kept. `more` is what else decides
    about it, as plain data."""
    import msgspec

    path = _folder() / f"{_digest([values, batch, sequence, *more])}.json"
    with contextlib.suppress(OSError, ValueError):
        checksum, _, content = documents.content(path, _LARGEST).partition(b"\n")
        if checksum.decode("ascii") == hashlib.sha256(content).hexdigest():
            found = msgspec.json.decode(content, type=Capture)
            path.touch()
            return found
    made = make()
    content = msgspec.json.encode(made)
    with contextlib.suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        checksum = hashlib.sha256(content).hexdigest().encode()
        files.write_bytes(path, checksum + b"\n" + content)
        _remove_oldest(path.parent)
    return made


def _folder() -> Path:
    return files.cache_directory() / "captures"


def _digest(decides: Sequence[object]) -> str:
    """A digest of all that decides about a capture."""
    found = hashlib.sha256(json.dumps(decides, sort_keys=True).encode())
    for package in ("torch", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            found.update(f"{package} {version(package)}\n".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        about = path.stat()
        found.update(f"{path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _remove_oldest(folder: Path) -> None:
    """Removes the files that were used least lately."""
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    total = 0
    for path in kept:
        total += path.stat().st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
