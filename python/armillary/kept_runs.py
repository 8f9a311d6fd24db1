"""Finished runs of a study, kept on disk until the study has ended.

A study that is interrupted goes on from them. Each run is a line of JSON: its key, which is a
digest of all that decides about it (program, workload, platform, settings), and what it found. Not
here: what is kept for sweeps, whose journal has rows (`sweep/journal.py`)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _core, documents

MOST_BYTES = 2**30
_Identity = dict[str, Any]


@dataclass(frozen=True)
class KeptOutcome:
    """Result of a run; as `_core.Outcome`."""

    json: str
    step_ps: int
    digest: str
    simulated_ranks: int
    events: int
    finish: list[int]
    finish_minus_compute: list[int]
    timeline: None = None

    def report(self) -> str:
        """The report as JSON."""
        return self.json

    def finish_ps(self) -> list[int]:
        """The end of each rank."""
        return self.finish

    def finish_minus_compute_ps(self) -> list[int]:
        """The end of each rank without its computation."""
        return self.finish_minus_compute

    @classmethod
    def of(cls, found: _core.Outcome) -> KeptOutcome:
        """Kept parts of an outcome."""
        return cls(
            found.report(),
            found.step_ps,
            found.digest,
            found.simulated_ranks,
            found.events,
            list(found.finish_ps()),
            list(found.finish_minus_compute_ps()),
        )


@dataclass(frozen=True)
class _Line:
    key: str
    found: KeptOutcome


Outcome = _core.Outcome | KeptOutcome


class KeptRuns:
    """The file of finished runs."""

    def __init__(self, path: Path, resume: bool) -> None:
        """Raises `OSError`: the file can't be written, or another process writes it."""
        self.path = path
        self.known: dict[str, KeptOutcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume:
            with contextlib.suppress(FileNotFoundError):
                self._read(documents.content(path, MOST_BYTES))
        self._stream = path.open("ab")
        try:
            fcntl.lockf(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not resume:
                self._stream.truncate(0)
        except BaseException:
            self._stream.close()
            raise

    def _read(self, content: bytes) -> None:
        import msgspec

        for text in content.splitlines():
            # The last line may be cut.
            with contextlib.suppress(msgspec.MsgspecError):
                line = msgspec.json.decode(text, type=_Line)
                self.known[line.key] = line.found

    def run(self, identity: _Identity, run: Callable[[], _core.Outcome]) -> Outcome:
        """Result of the run of this identity: as kept, or now."""
        from hashlib import sha256

        text = json.dumps({**identity, "program": _program()}, sort_keys=True)
        key = sha256(text.encode()).hexdigest()
        if key not in self.known:
            found = run()
            self.known[key] = KeptOutcome.of(found)
            line = json.dumps(asdict(_Line(key, self.known[key]))).encode()
            with contextlib.suppress(OSError):
                self._stream.write(b"\n" + line + b"\n")
                self._stream.flush()
            return found
        return self.known[key]

    def close(self) -> None:
        """Keeps what is there."""
        with contextlib.suppress(OSError):
            self._stream.close()

    def remove(self) -> None:
        """Removes the file: nothing is left to go on with."""
        self.close()
        self.path.unlink(missing_ok=True)


def _program() -> list[object]:
    """Version, size and time of this build, so that kept runs of other builds are not used."""
    about = Path(_core.__file__).stat()
    return [_core.version(), about.st_size, about.st_mtime_ns]


_CURRENT: ContextVar[KeptRuns | None] = ContextVar("kept runs", default=None)


@contextlib.contextmanager
def keeping(kept: KeptRuns | None) -> Iterator[None]:
    """Runs meanwhile are kept. The file is removed at the end, and stays after an error."""
    token = _CURRENT.set(kept)
    try:
        yield
    except BaseException:
        if kept is not None:
            kept.close()
        raise
    else:
        if kept is not None:
            kept.remove()
    finally:
        _CURRENT.reset(token)


def outcome(identity: Callable[[], _Identity], run: Callable[[], _core.Outcome]) -> Outcome:
    """Outcome of a run. `identity` is all that decides about it; it is made only where runs are
    kept."""
    kept = _CURRENT.get()
    return run() if kept is None else kept.run(identity(), run)


def digest(workload: _core.Workload) -> str:
    """A digest of what the ranks do."""
    import hashlib
    import tempfile

    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        workload.write(folder, False)
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names, in order
            found.update(name.encode() + b"\0" + documents.content(Path(folder, name), MOST_BYTES))
    return found.hexdigest()
