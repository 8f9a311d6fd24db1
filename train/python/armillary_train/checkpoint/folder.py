"""The folder of a run's checkpoints: one folder for each, whole or not there.

    DIR/lock                    held by the run that writes
    DIR/step-000000000100/      a checkpoint; it is one once manifest.json is there
        rank-0-of-2-RUN.safetensors ...
        manifest.json

Here: names, the lock, what is removed when. Not here: what is written (`saver.py`)."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import IO

from armillary import documents
from armillary.errors import InputError, Problem

from ..settings import Settings
from ..tables.caching import CHECKPOINT, folder_of, folders_in
from ..tensor_files import damaged
from .manifest import MANIFEST, Manifest, parse

_NAME = re.compile(r"step-([0-9]{12,15})")
_LARGEST = 2**28
"""Bytes of a manifest."""
_HELP = "a checkpoint that `armillary train` wrote"


class Folder:
    """A folder of checkpoints."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: IO[bytes] | None = None

    def of(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.path / f"step-{step:012}"

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are whole, the first one first."""
        try:
            names = [found for each in self.path.iterdir() if (found := _NAME.fullmatch(each.name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(f"can't be read: {error.strerror or error}") from None
        return sorted(
            int(found[1]) for found in names if (self.path / found[0] / MANIFEST).is_file()
        )

    def manifest(self, step: int) -> Manifest:
        """Manifest of a checkpoint. Raises `InputError`."""
        path = self.of(step) / MANIFEST
        if not documents.is_file(path):
            said = f"there is no checkpoint of step {step}"
            allowed = ", ".join(map(str, self.steps())) or "a folder with checkpoints"
            raise InputError([Problem(str(self.path), "", said, allowed)])
        found = parse(documents.read_text(path, _HELP, _LARGEST), path)
        if found.step != step:
            raise damaged(path, "step", f"is {found.step}, and its folder is that of {step}")
        return found

    def chain(self, step: int) -> list[Manifest]:
        """A checkpoint behind those that it builds on, the first one with all rows. Each builds on
        an earlier step, so this ends."""
        found = [self.manifest(step)]
        while (base := found[0].base) is not None:
            found.insert(0, self.manifest(base))
        return found

    def lock(self) -> None:
        """Makes the folder, and claims it for this process. Raises `InputError` if it can't be
        written, or another run writes to it."""
        path = self.path / "lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            stream = path.open("ab+")
        except OSError as error:
            raise self._error(f"can't be written: {error.strerror or error}") from None
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read(20).decode("ascii", "replace")
            stream.close()
            said = f"another run writes its checkpoints here: process {holder}"
            raise self._error(said, "another folder, or the end of that run") from None
        stream.truncate(0)
        stream.write(str(os.getpid()).encode())
        stream.flush()
        self._lock = stream

    def unlock(self) -> None:
        """Lets other runs write here."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def clean(self) -> None:
        """Removes what runs that ended early left behind. Only for who has the lock."""
        for each in self.path.iterdir():
            if _NAME.fullmatch(each.name) and not (each / MANIFEST).is_file():
                shutil.rmtree(each, ignore_errors=True)

    def commit(self, manifest: Manifest) -> None:
        """Makes the files in a folder a checkpoint. Raises `OSError`."""
        place = self.of(manifest.step)
        write_durably(place / MANIFEST, manifest.text())
        sync(self.path)

    def prune(self, keep: int) -> None:
        """Removes all checkpoints except the last `keep` ones and those that they build on."""
        steps = self.steps()
        needed: set[int] = set()
        for step in reversed(steps[-keep:]):
            if step not in needed:
                try:
                    needed.update(each.step for each in self.chain(step))
                except InputError:
                    return  # Damaged ones stay for whoever looks into them.
        for step in steps:
            if step not in needed:
                place = self.of(step)
                (place / MANIFEST).unlink(missing_ok=True)
                sync(place)
                shutil.rmtree(place, ignore_errors=True)

    def _error(self, said: str, help_: str = "a folder that can be read and written") -> InputError:
        return InputError([Problem(str(self.path), "--checkpoint", said, help_)])


def last(path: str | os.PathLike[str]) -> tuple[Folder, int]:
    """The checkpoint that a user names: a folder of a run, for its last one, or that of one step.
    Raises `InputError` if there is none."""
    given = Path(path)
    found = _NAME.fullmatch(given.resolve().name)
    if found is not None and not Folder(given).steps():
        folder = Folder(given.resolve().parent)
        folder.manifest(int(found[1]))
        return folder, int(found[1])
    folder = Folder(given)
    steps = folder.steps()
    if not steps:
        said = "there is no checkpoint" if given.is_dir() else "there is no such folder"
        help_ = "a folder that `armillary train --checkpoint` wrote"
        raise InputError([Problem(str(path), "", said, help_)])
    return folder, steps[-1]


def write_durably(path: Path, text: str) -> None:
    """Writes a file that is there whole or not at all, also after a loss of power. Raises
    `OSError`."""
    scratch = path.with_name(f"{path.name}.part")
    with scratch.open("wb") as stream:
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Waits until the names in a folder are on the disk. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resumed_step(path: str | None, resume: bool) -> int | None:
    """The step that a run goes on from; `None` if it begins anew. Raises `InputError`."""
    steps = Folder(path).steps() if path is not None and resume else []
    return steps[-1] if steps else None


def forget_tables(settings: Settings, rank: int, ranks: int) -> None:
    """Lets a run that goes on from a checkpoint use its folder of tables again, on any number of
    ranks: they come out of the checkpoint, whatever the folder has."""
    if settings.table_dir is None or resumed_step(settings.checkpoint, settings.resume) is None:
        return
    mine = None if ranks == 1 and settings.plan is None else ranks
    own = Path(settings.table_dir) / folder_of(rank, ranks)
    for others, path in list(folders_in(settings.table_dir)):
        if others == mine and mine is not None and path.parent != own:
            continue  # Another rank may be at work there.
        (path / CHECKPOINT).unlink(missing_ok=True)
        for log in path.glob("table-*") if others != mine else ():
            log.unlink(missing_ok=True)
