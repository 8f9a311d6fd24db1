"""What every verb does with its output: results on stdout, the rest on stderr, problems as blocks, exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from .. import _core, files
from ..errors import ArmillaryError, Problem, StalledError

if TYPE_CHECKING:
    from rich.console import Console

FOUND = 1
"""Exit code: the run found a problem."""
WRONG = 2
"""Exit code: the input is wrong."""
INTERRUPTED = 130
_BROKEN_PIPE = 141
_BUG = 70
_SHOWN = 20
"""Blocks shown of a run's problems: a wrong prefix is wrong for every rank."""


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """Turns what goes wrong into blocks on stderr and an exit code; no traceback reaches a user."""
    try:
        yield
        sys.stdout.flush()
    except ArmillaryError as error:
        sys.stdout.flush()
        show_problems(error.problems)
        sys.exit(FOUND if isinstance(error, StalledError) else WRONG)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no file was written\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again at exit
        sys.exit(_BROKEN_PIPE)
    except _core.PanicException as panic:
        sys.stderr.write(f"error: Armillary contradicts itself: {panic}\n  please report it together with the input\n")
        sys.exit(_BUG)
    except OSError as error:  # a full disk under stdout: files of ours raise InputError
        show_problems([Problem(error.filename or "standard output", "", error.strerror or str(error))])
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(WRONG)


def show_problems(problems: Sequence[Problem], limit: int | None = _SHOWN) -> None:
    """One block a problem: message, where, what is allowed. No more than `limit`, the rest counted."""
    for problem in problems[:limit]:
        where = ": ".join(part for part in (problem.file, problem.place) if part)
        lines = [f"error: {problem.message}"]
        lines += [f"  in: {where}"] if where else []
        lines += [f"  allowed: {problem.help}"] if problem.help else []
        sys.stderr.write("\n".join(lines) + "\n")
    if limit is not None and len(problems) > limit:
        sys.stderr.write(f"{len(problems)} problems, {limit} of them shown; armillary check lists all\n")
    elif len(problems) > 1:
        sys.stderr.write(f"{len(problems)} problems\n")


def log(message: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(message + "\n")


def console() -> Console:
    """Where the readable result goes: fits the terminal, plain text in a file."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name the terminal can't spell must not end the run
    return Console(highlight=False, markup=False, emoji=False)


def write_json(path: str | None, text: str) -> None:
    """Writes machine output to `path`, or to stdout when it is `-`."""
    if path is not None:
        _write(path, text if text.endswith("\n") else text + "\n", "result")


def write_page(path: str, text: str) -> None:
    """Writes a page to `path`, or to stdout when it is `-`."""
    _write(path, text, "report")


def write_csv(path: str, text: str) -> None:
    """Writes a table to `path`, or to stdout when it is `-`."""
    _write(path, text, "table")


def _write(path: str, text: str, what: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    else:
        files.write_text(path, text)
        log(f"{what} written to {path}")


def require_writable(path: str | None) -> None:
    """Refuses an output path that can't be written, before the work and not after it."""
    if path is not None and path != "-":
        files.require_writable(path)


@contextlib.contextmanager
def progress(label: str, clock: bool = True) -> Iterator[Callable[[float, float], None] | None]:
    """A bar with an estimate on stderr for work of more than a second; nothing when stderr is not a terminal.

    `clock` shows the simulated time beside it.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[at]}"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=1.0, at="")
    begin = monotonic()

    def update(done: float, simulated_ns: float) -> None:
        if not bar.live.is_started and monotonic() - begin > 1:
            bar.start()
        at = f"at {simulated_ns / 1e6:,.3f} ms" if clock else ""
        # Before the first operation ends nobody can tell how long it takes: the bar only shows that something moves.
        bar.update(task, total=1.0 if done else None, completed=done, at=at)

    try:
        yield update
    finally:
        bar.stop()
