"""Output of every verb: results on stdout, the rest on stderr, problems as blocks, exit codes."""

from __future__ import annotations

import contextlib
import io
import json as json_
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TextIO

from .. import _core, files, old_words
from ..errors import (
    ArmillaryError,
    InputError,
    Problem,
    StalledError,
    TrainingError,
    out_of_memory,
)
from ..report.escapes import visible
from ..units import NS_PER_MS

if TYPE_CHECKING:
    from rich.console import Console

    from ..explain import Explanation

FOUND = 1
"""Exit code: the run found a problem."""
WRONG = 2
"""Exit code: the input is wrong."""
INTERRUPTED = 130
LAST_S = 1.6
"""Seconds after a signal at which a verb ends at the latest."""
_BROKEN_PIPE = 141
_BUG = 70
_SHOWN = 20
"""Blocks shown of a run's problems: a wrong prefix is wrong for every rank."""
TRACEBACK = "ARMILLARY_TRACEBACK"
"""Environment variable: print the traceback of a fault of ours."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end work as Ctrl-C does: nothing half-written stays."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Warnings of Python, such as of a run that will take long, as a line each."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: log(f"warning: {message}")
        yield


@contextlib.contextmanager
def guard(lists_all: str = "") -> Iterator[None]:
    """Turns errors into blocks on stderr and an exit code; no traceback reaches a user. `lists_all`
    is the command that lists every problem of this input, if there is one."""
    try:
        with _warnings_as_lines():
            yield
        sys.stdout.flush()
    except ArmillaryError as error:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        show_problems(error.problems, lists_all=lists_all)
        _exit(FOUND if isinstance(error, StalledError | TrainingError) else WRONG)
    except KeyboardInterrupt as stop:
        interrupted(stop)
    except BrokenPipeError:
        _exit(_BROKEN_PIPE)
    except UnicodeEncodeError as error:  # a name that is not UTF-8, where only text can go
        name = str(error.object)[:_LONGEST_FAULT]
        show_problems([Problem(name, "", "the name is not UTF-8 text", "a name in UTF-8")])
        _exit(WRONG)
    except OSError as error:  # a full disk under stdout: files of ours raise InputError
        _refuse_if_memory(error)
        show_problems(
            [Problem(error.filename or "standard output", "", error.strerror or str(error))]
        )
        _exit(WRONG)
    except MemoryError:
        show_problems(
            [Problem("", "", "the input is too large: it needs more memory than is available")]
        )
        _exit(WRONG)
    except RecursionError:
        show_problems([Problem("", "", "the input is nested too deeply")])
        _exit(WRONG)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # Panics of the core are no `Exception`, nor all of PyTorch's.
        if not _is_ours_to_report(error):
            raise
        _refuse_if_memory(error)
        _fault(error)


def _refuse_if_memory(error: BaseException) -> None:
    """Ends the verb if it ran out of memory."""
    problem = out_of_memory(error)
    if problem is not None:
        show_problems([problem])
        _exit(WRONG)


def interrupted(stop: KeyboardInterrupt, kept: str = "; no file was written") -> NoReturn:
    """Reports that the work was stopped and what is `kept`. Ends with the exit code of the
    signal."""
    _core.interruption_is_said()
    _write_error(f"\ninterrupted{kept}\n")
    _exit(128 + stop.number if isinstance(stop, Terminated) else INTERRUPTED)


@contextlib.contextmanager
def until_stopped(keeps: Callable[[], bool]) -> Iterator[list[KeyboardInterrupt]]:
    """Work that a signal may end early: the signal is then in the list. If the verb `keeps`
    nothing, the signal ends it here."""
    stops: list[KeyboardInterrupt] = []
    try:
        yield stops
    except KeyboardInterrupt as stop:
        if not keeps():
            raise
        stops.append(stop)


def _is_ours_to_report(error: BaseException) -> bool:
    """Whether it is a fault. What typer raises to end a verb or to refuse arguments is not."""
    from typer import Abort, Exit

    return not isinstance(error, Abort | Exit) and not hasattr(error, "format_message")


def _fault(error: BaseException) -> NoReturn:
    """One line about an internal error, with its traceback if the user wants it."""
    if os.environ.get(TRACEBACK):
        _write_error(visible("".join(traceback.format_exception(error))))
    last = traceback.extract_tb(error.__traceback__)[-1:]
    at = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in last)
    said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_FAULT]
    _write_error(
        f"error: internal error: {visible(said)}{at}; please report it with "
        "the input "
        f"({TRACEBACK}=1 prints the traceback)\n"
    )
    _exit(_BUG)


_LONGEST_FAULT = 300


def _exit(code: int) -> NoReturn:
    """Ends the process. A closed standard output must not change the exit code."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _discard(sys.stdout)
    if "RANK" in os.environ and "torch" in sys.modules:
        # One rank of a training. Threads of PyTorch's network may call Python while it ends, and
        # abort the process.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _discard(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def prepare(ends_soon: bool = True) -> None:
    """Makes the three streams usable, SIGTERM and SIGHUP end work as Ctrl-C does, and warnings one
    line. `ends_soon`: `LAST_S` after a signal at the latest.

    A descriptor that the caller closed would else be that of the first file that is opened. Raises
    `InputError` for a closed standard output: results would be lost."""
    warnings.showwarning = _warn
    lost = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = os.open(os.devnull, os.O_RDWR)
            if stream != number:
                os.dup2(stream, number)
            setattr(
                sys,
                name,
                os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False),
            )
    if not lost and isinstance(sys.stdout.buffer, io.RawIOBase):
        # Unbuffered (PYTHONUNBUFFERED): the rest of a write is lost if a stop of the process ends
        # it early.
        sys.stdout = os.fdopen(
            sys.stdout.fileno(), "w", buffering=1, encoding=sys.stdout.encoding, closefd=False
        )
    for signal_ in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_) is signal.SIG_DFL:  # nohup ignores SIGHUP, and means it
            signal.signal(signal_, _terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if ends_soon:
        _end_soon()
    if lost:
        raise InputError(
            [
                Problem(
                    "standard output",
                    "",
                    "is closed",
                    "an open one; >/dev/null discards the result",
                )
            ]
        )


def _end_soon() -> None:
    """Ends the process after a signal, however long the code of other libraries goes on: the
    handlers of Python wait for it."""
    stops = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    ours = [number for number in stops if callable(signal.getsignal(number))]
    if threading.current_thread() is threading.main_thread():
        wakes = _core.end_after_signals(bytes(ours), LAST_S)
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of the library as one line, without the place in its code."""
    log(f"warning: {visible(str(message))}")


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(number)


def show_problems(
    problems: Sequence[Problem], limit: int | None = _SHOWN, lists_all: str = ""
) -> None:
    """One block a problem: message, where, what is allowed. No more than `limit`, the rest
    counted."""
    for problem in problems[:limit]:
        where = ": ".join(part for part in (problem.file, problem.place) if part)
        lines = [f"error: {problem.message}"]
        lines += [f"  in: {where}"] if where else []
        lines += [f"  allowed: {problem.help}"] if problem.help else []
        _write_error("".join(f"{visible(line)}\n" for line in lines))
    if limit is not None and len(problems) > limit:
        more = f"; {lists_all} lists all" if lists_all else ""
        _write_error(f"{len(problems)} problems, {limit} of them shown{more}\n")
    elif len(problems) > 1:
        _write_error(f"{len(problems)} problems\n")


def log(message: str) -> None:
    """A line for people, on stderr."""
    _write_error(visible(message) + "\n")


def _write_error(text: str) -> None:
    """Writes to stderr. Errors of the stream are ignored, and the work goes on."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def console() -> Console:
    """Where the readable result goes: fits the terminal, plain text in a file."""
    from ..report.terminal import Terminal

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="replace"
        )  # a name the terminal can't spell must not end the run
    return Terminal()


_of_words: list[str] = []
"""Warnings of old words among the arguments."""


def warn_of_words(warnings: Sequence[str]) -> None:
    """Warnings of old words among the arguments: a line each, and a part of the JSON output. A rank
    of a run prints none, because the process that started it has."""
    _of_words[:] = warnings
    for warning in () if old_words.SAID in os.environ else warnings:
        log(f"warning: {warning}")


def write_json(path: str | None, text: str) -> None:
    """Writes machine output to `path`, or to stdout when it is `-`."""
    if path is not None:
        text = _with_words(text) if _of_words else text
        _write(path, text if text.endswith("\n") else text + "\n", "result")


def _with_words(text: str) -> str:
    """Machine output with the warnings of old words, where it has warnings."""
    found = json_.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("warnings"), list):
        return text
    return json_.dumps(found | {"warnings": [*_of_words, *found["warnings"]]}, indent=2)


def write_page(path: str, text: str) -> None:
    """Writes a page to `path`, or to stdout when it is `-`."""
    _write(path, text, "report")


def write_explanation(
    found: Explanation, json: str | None, page: str | None, stop: KeyboardInterrupt | None
) -> None:
    """Writes an explanation to the terminal, as JSON and as a page. After a Ctrl-C (`stop`) it is
    what was known by then, and ends the verb."""
    if "-" not in (json, page):
        from ..report import words

        words.show(found.page, console())
    write_json(json, found.to_json())
    if page is not None:
        write_page(page, found.html())
    if stop is not None:
        interrupted(stop, "; what was finished is written")


def write_csv(path: str, text: str) -> None:
    """Writes a table to `path`, or to stdout when it is `-`."""
    _write(path, text, "table")


def write_text(path: str, text: str, what: str = "file") -> None:
    """Writes a text to `path`, or to stdout when it is `-`. `what` is its name in the log."""
    _write(path, text, what)


def write_platform(path: str, text: str) -> None:
    """Writes a platform file to `path`, or to stdout when it is `-`."""
    _write(path, text, "platform")


def write_drawing(path: str, text: str) -> None:
    """Writes a drawing to `path`, or to stdout when it is `-`."""
    _write(path, text if text.endswith("\n") else text + "\n", "drawing")


def _write(path: str, text: str, what: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    else:
        files.write_text(path, text)
        log(f"{what} written to {path}")


_NO_TEXT = ("--timeline", "--pcap", "--plot")
"""Options for files that standard output can't hold."""


def claim(
    outputs: Mapping[str, str | None],
    *inputs: str | None,
    folders: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Refuses output paths that can't be written, before the work and not after it.

    `outputs` are paths by option, `-` for standard output; `folders` are directories, which are
    not. No two of them may be the same file, nor one of them a file of `inputs`. Raises
    `InputError` listing every one."""
    problems = [
        Problem("", f"{option} -", "can't go to standard output", allowed)
        for some, allowed in ((folders, "a directory"), (outputs, "a file"))
        for option, path in some.items()
        if path == "-" and (some is folders or option in _NO_TEXT)
    ]
    outputs = {**{option: path for option, path in folders.items() if path != "-"}, **outputs}
    named = {path: f"the input {path}" for path in inputs if path is not None}
    taken = {file: said for path, said in named.items() if (file := _identity(path)) is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        file = _identity(path)
        if file in taken:
            problems.append(
                Problem(
                    "", f"{option} {path}", f"is also the file of {taken[file]}", "another file"
                )
            )
        elif file is not None:
            taken[file] = option
        if path != "-" and option not in folders:
            try:
                files.require_writable(path)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)


def _identity(path: str) -> str | None:
    """Identity of a file, equal for all of its names; nothing for devices, into which several may
    write."""
    if path == "-":
        return path
    real = os.path.realpath(path)
    # Unlike the methods of `Path` these never raise: what is not a path is refused where it is
    # written.
    plain = os.path.isfile(real) or os.path.isdir(real)  # noqa: PTH112, PTH113
    return None if os.path.exists(real) and not plain else real  # noqa: PTH110


@contextlib.contextmanager
def progress(label: str, clock: bool = True) -> Iterator[Callable[..., None] | None]:
    """A bar with an estimate on stderr for work of more than a second; nothing when stderr is not a
    terminal.

    It is called with the share that is done, the simulated time (shown with `clock`) and, for work
    of several parts, what is being done."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

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

    def update(done: float, simulated_ns: float, what: str = label) -> None:
        if not bar.live.is_started and monotonic() - begin > 1:
            bar.start()
        at = f"at {simulated_ns / NS_PER_MS:,.3f} ms" if clock else ""
        # Before the first operation ends, the total time is unknown: the bar only shows activity.
        bar.update(task, total=1.0 if done else None, completed=done, description=what, at=at)

    try:
        yield update
    finally:
        bar.stop()


@contextlib.contextmanager
def clock(label: str) -> Iterator[None]:
    """The time that has gone by, on stderr, for work that can't say how much is left; nothing when
    stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        shown.add_task(label)
        yield
