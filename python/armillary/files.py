"""Output files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError, Problem

_HELP = "a file name in an existing directory that may be written to"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` to `path`: a reader sees the old file or the new one, never a part, whatever
    interrupts it.

    Devices and pipes (`/dev/stdout`) are written straight through. Raises `InputError` naming path
    and reason."""
    # Bytes of a name that are not UTF-8 are shown as in a string of JSON.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes in the same way as `write_text`."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            _replace(target.resolve(), content)
    except OSError as error:
        raise _unwritable(path, error) from None


@contextlib.contextmanager
def directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write into; at the end its files are in the directory `path`, which is made.

    An error leaves nothing behind. A directory that is there keeps its other files. Raises
    `InputError` naming path and reason."""
    target = Path(path).resolve()
    scratch = None
    try:
        scratch = _scratch(target)
        scratch.mkdir(parents=True)
        yield scratch
        if target.exists():
            for file in sorted(scratch.iterdir()):
                file.replace(target / file.name)
        else:
            scratch.replace(target)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if scratch is not None:
            import shutil

            shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to as long as it takes; at the end the file there is the file `path`.

    An error leaves nothing behind. Devices and pipes are written straight through. Raises
    `InputError` naming path and reason."""
    target = Path(path)
    straight = target.exists() and not target.is_file()
    scratch = target if straight else _scratch(target.resolve())
    try:
        yield scratch
        if not straight:
            _keep(scratch, target.resolve())
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if not straight:
            with contextlib.suppress(OSError):
                scratch.unlink()


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raises the `InputError` that `write_text` would, before hours of work are spent on what can't
    be kept."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            with target.open("w"):
                return
        scratch = _scratch(target.resolve())
        scratch.touch(exist_ok=False)
        scratch.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def _replace(target: Path, content: bytes) -> None:
    scratch = _scratch(target)
    try:
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(target)
    except BaseException:  # Ctrl-C too must leave nothing behind
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def _keep(scratch: Path, target: Path) -> None:
    with scratch.open("rb+") as stream:
        os.fsync(stream.fileno())
    scratch.replace(target)


def _scratch(target: Path) -> Path:
    """A name next to the target: a rename is atomic only within one file system."""
    if not target.name:
        raise IsADirectoryError(errno.EISDIR, "it is the root of the file system")
    return target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")


def _unwritable(path: str | os.PathLike[str], error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError([Problem(os.fspath(path), "", f"can't be written: {reason}", _HELP)])


def cache_directory() -> Path:
    """Where the user's caches are: `XDG_CACHE_HOME`, or what the system has for that."""
    home = Path(os.environ.get("HOME", "~")).expanduser()
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "armillary"
