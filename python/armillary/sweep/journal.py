"""The journal of a sweep, `journal.jsonl`: the study, then every finished point, one line of JSON
each, only ever appended to.

A point that has failed and is run again has a line more, and the last one counts. Every batch of
lines is flushed to the disk (fsync) before it counts as done; a killed sweep leaves whole lines and
at most one partial line, which a resumed sweep cuts off. A lock keeps a second process out."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .. import _core, documents
from ..errors import InputError, Problem
from .columns import fault
from .runner import DECODER, Finished
from .source import located
from .study import SweepStudy

SCHEMA = "armillary.sweep-journal/2"
NAME = "journal.jsonl"
_LARGE = 10**18


def header(study: SweepStudy) -> dict[str, Any]:
    """Header of a journal with everything that results depend on: the study, the files it names,
    the version."""
    return {
        "schema": SCHEMA,
        "version": _core.version(),
        "study": json.loads(json.dumps(study.source.values)),
        "files": dict(sorted(_digests(study))),
    }


def _digests(study: SweepStudy) -> Iterator[tuple[str, str]]:
    """SHA-256 of the files that the study names: platforms, models, groups, traces in one file."""
    keys = ("platform.file", "workload.model", "workload.path", "workload.groups")
    named = [study.base[key] for key in keys if key in study.base]
    for targets, column in zip(study.targets, range(len(study.columns)), strict=True):
        if any(target in keys for target in targets):
            parameter = column - (len(study.columns) - len(study.parameters))
            values = (
                [row[column] for row in study.rows]
                if parameter < 0
                else study.parameters[parameter].domain
            )
            named += values if isinstance(values, list) else getattr(values, "values", ())
    for name in named:
        path = Path(located(name, study.source.folder)) if isinstance(name, str) else None
        if path is not None and documents.is_file(path):
            with documents.open_plain(path) as stream:
                yield str(name), hashlib.file_digest(stream, "sha256").hexdigest()


class Journal:
    """The open journal of a sweep, and what it held when it was opened."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        study: SweepStudy,
        points: int,
        resume: bool,
        retry_failed: bool = False,
    ) -> None:
        self.path, self.points, self.columns = Path(folder) / NAME, points, len(study.columns)
        self.finished: dict[int, Finished] = {}
        self._refuse(resume)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.stream: BinaryIO = self.path.open("a+b")
        except OSError as error:
            raise self._problem(
                "", f"can't be written: {error.strerror}", "a directory that may be written to"
            ) from None
        try:
            self._lock()
            self._open(header(study))
        except BaseException:
            self.stream.close()
            raise
        if retry_failed:
            self.finished = {
                index: each for index, each in self.finished.items() if each.error is None
            }

    def _problem(self, place: str, message: str, allowed: str = "") -> InputError:
        return InputError([Problem(str(self.path), place, message, allowed)])

    def _refuse(self, resume: bool) -> None:
        if self.path.exists() and not self.path.is_file():
            raise self._problem("", "is not a file", "another directory")
        there = self.path.is_file() and self.path.stat().st_size > 0
        if there and not resume:
            raise self._problem(
                "",
                "is there: this directory holds a sweep",
                "--resume to go on, or another directory",
            )

    def _lock(self) -> None:
        try:
            fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise self._problem(
                "", "is in use by another process", "wait for it, or another directory"
            ) from None

    def _open(self, wanted: dict[str, Any]) -> None:
        self.stream.seek(0)
        head, whole = json.dumps(wanted).encode(), 0
        for number, line in enumerate(self.stream, 1):
            if not line.endswith(b"\n"):
                if number == 1 and not head.startswith(
                    line
                ):  # never ours: nothing of it may be lost
                    self._compare(line, wanted)
                break  # cut off in the middle of it
            if number == 1:
                self._compare(line, wanted)
            else:
                self._keep(number, line)
            whole += len(line)
        self.stream.truncate(whole)
        if not whole:
            self.append([head])
            _sync_folder(self.path.parent)

    def _compare(self, line: bytes, wanted: dict[str, Any]) -> None:
        try:
            there = json.loads(line)
        except (ValueError, RecursionError):
            there = None
        if not isinstance(there, dict) or there.get("schema") != SCHEMA:
            raise self._problem("line 1", "is not a journal of a sweep", SCHEMA)
        changed = list(_changes(there, wanted, ""))
        if changed:
            allowed = "the study as it was, or another directory"
            raise InputError(
                [Problem(str(self.path), place, message, allowed) for place, message in changed]
            )
        if not line.endswith(b"\n"):
            raise self._problem("line 1", "has no end", "a journal as it was written")

    def _keep(self, number: int, line: bytes) -> None:
        try:
            found = DECODER.decode(line)
            wrong = self._fault(found)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            wrong = str(error)
        if wrong:
            raise self._problem(
                f"line {number}", f"is not a finished point: {wrong}", "a journal as it was written"
            )
        self.finished[found.index] = found

    def _fault(self, found: Finished) -> str:
        """Reason why a line is not a point of the study, in words; nothing when it is one."""
        if not 0 <= found.index < self.points:
            return (
                f"there is no point {found.index}"
                if abs(found.index) < _LARGE
                else "there is no such point"
            )
        if len(found.values) != self.columns:
            return f"it has {len(found.values)} values of {self.columns} parameters"
        if found.error is not None:
            return "it has failed, and has results" if found.results else ""
        return fault(found.results)

    def append(self, lines: list[bytes]) -> None:
        """Adds whole lines, on the disk when this returns."""
        try:
            self.stream.write(b"".join(line + b"\n" for line in lines))
            self.stream.flush()
            os.fsync(self.stream.fileno())
        except OSError as error:
            raise self._problem(
                "", f"can't be written: {error.strerror}", "room on the disk; then --resume"
            ) from None

    def close(self) -> None:
        """Lets another process have it."""
        with contextlib.suppress(OSError):
            self.stream.close()


def _changes(was: object, now: object, place: str) -> Iterator[tuple[str, str]]:
    """Differences between two values, key by key."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*was, *now)):
            inner = f"{place}.{key}".lstrip(".")
            if key not in was or key not in now:
                yield inner, f"is {'gone' if key in was else 'new'} since the sweep began"
            else:
                yield from _changes(was[key], now[key], inner)
        if list(was) != list(now) and set(was) == set(now) and place == "study.parameters":
            yield place, "are in another order than when the sweep began"
    elif was != now or type(was) is not type(now):
        yield place, f"is {_short(now)}, was {_short(was)} when the sweep began"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _sync_folder(folder: Path) -> None:
    """So that the new file's name is on the disk too."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
