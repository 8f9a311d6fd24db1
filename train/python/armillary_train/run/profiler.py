"""Records chosen steps of a training with PyTorch's profiler, one pair of files for each rank.

Here: when the profiler and the execution trace observer work, and the files. Not here: the names of
what they record (`profile_ranges.py`), reading them (`workload/importer`).

    DIR/kineto-rank0.json       times of ranges in all chosen steps, and of operators
    DIR/execution-rank0.json    operators with shapes

What is recorded takes time too. On a processor, the profiler of operators makes a step of small
kernels 10 to 20 % longer. So the chosen steps have ranges only, the step behind them has operators
too, and the one behind that has shapes. With a device, whose work the host does not delay, the
chosen steps have operators, and the step behind them shapes."""

from __future__ import annotations

import errno
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import torch

from armillary.errors import InputError, Problem
from armillary.units import counted

from .. import profile_ranges
from ..data import Part
from ..ranks.world import World
from ..settings import Settings

Window = tuple[Part, Sequence[Part]]


class RunProgress(Protocol):
    """Progress of a run: how many steps are done, and what was found about recorded ones."""

    steps: int
    trace: dict[str, float | int] | None


def steps(
    windows: Iterator[Window],
    settings: Settings,
    world: World,
    progress: RunProgress,
    whole: int | None,
) -> Iterator[Window]:
    """The same windows; a step is from the request for its window to that for the next one. Those
    of `settings.trace_steps` are recorded. `whole`: steps of the run, where they are known.

    Raises `InputError`: a file can't be written; the run does not have these steps, which it says
    before the first step if it can."""
    if settings.trace is None:
        yield from windows
        return
    folder, chosen = Path(settings.trace), settings.traced
    _make(folder)
    phases, end = _phases(folder, chosen, settings, world.rank)
    if progress.steps >= chosen.start:
        said = f"the run goes on from step {progress.steps}"
        help_ = f"A:B with A from {progress.steps + 1} on"
        raise InputError([Problem("", "--trace-steps", said, help_)])
    if whole is not None and whole < end:
        raise _too_few(whole, chosen, end)
    times: dict[int, float] = {}
    with ExitStack() as stack:
        while True:
            number = progress.steps + 1
            if number in phases:
                stack.close()
                stack.enter_context(phases[number])
            begin = time.perf_counter()
            with profile_ranges.step(number):
                with profile_ranges.part("data"):
                    window = next(windows, None)
                if window is None:
                    break
                yield window
            times[number] = time.perf_counter() - begin
            if number == end:
                stack.close()
    if end not in times:
        raise _too_few(progress.steps, chosen, end)
    progress.trace = _times(times, chosen, end)


def _too_few(count: int, chosen: range, end: int) -> InputError:
    """Refuses a run of `count` steps, which needs `end` steps to record the `chosen` ones."""
    said, last = f"the run has {counted(count, 'step')}", count - (end - chosen.stop + 1)
    more = f"at least {end} steps"
    help_ = f"{more}, or A:B with B up to {last}" if last > 0 else more
    return InputError([Problem("", "--trace-steps", said, help_)])


Phases = dict[int, AbstractContextManager[None]]


def _phases(folder: Path, chosen: range, settings: Settings, rank: int) -> tuple[Phases, int]:
    """Records to make, each with its first step, and the last step of all."""
    profile = folder / f"kineto-rank{rank}.json"
    shaped = _shaped(folder / f"execution-rank{rank}.json")
    if settings.device != "cpu":
        return {chosen.start: _timed(profile), chosen.stop: shaped}, chosen.stop
    stamps: list[profile_ranges.Stamp] = []
    last = chosen.stop + 1
    phases = {chosen.start: profile_ranges.stamped(stamps), chosen.stop: _timed(profile, stamps)}
    return {**phases, last: shaped}, last


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = f"can't be made: {error.strerror}"
        raise InputError([Problem(str(folder), "--trace", said, "a folder")]) from None


@contextmanager
def _timed(path: Path, stamps: Sequence[profile_ranges.Stamp] = ()) -> Iterator[None]:
    """Times of what is done within, to `path`; in addition the ranges `stamps`."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    profile = torch.profiler.profile(activities=kinds)
    _start(profile)
    with profile_ranges.recorded():
        yield
    profile.stop()
    try:
        path.unlink(missing_ok=True)
        profile.export_chrome_trace(str(path))
        written = _whole(path)
        if stamps:
            _add(written, stamps)
            path.write_text(json.dumps(written), encoding="utf-8")
    except OSError as error:
        raise _unwritten(path, error) from None


def _start(profile: torch.profiler.profile) -> None:
    """Starts a profiler. PyTorch would first load its compiler, which takes seconds, to ask whether
    it uses CUDA graphs. The trainer uses none."""
    lazy: set[str] = getattr(torch, "_lazy_modules", set())
    loads = "_inductor" in lazy
    lazy.discard("_inductor")
    try:
        profile.start()
    finally:
        if loads:
            lazy.add("_inductor")


def _whole(path: Path) -> dict[str, Any]:
    """Content of the file that PyTorch wrote to `path`. PyTorch says nothing if a disk is full.
    Raises `OSError` if the file is not there or is cut off."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OSError(errno.EIO, "PyTorch wrote no file") from None
    except ValueError:
        size = path.stat().st_size
        raise OSError(errno.EIO, f"PyTorch wrote {size:,} bytes, and not all of it") from None
    return found


def _unwritten(path: Path, error: OSError) -> InputError:
    """The problem of a file that could not be written. What is there of it is removed."""
    for each in (path, path.with_name(f"{path.name}.tmp")):  # PyTorch's own name meanwhile.
        with suppress(OSError):
            each.unlink(missing_ok=True)
    said = f"the profile can't be written: {error.strerror}"
    return InputError([Problem(str(path), "--trace", said, "a folder on a disk with space")])


def _add(profile: dict[str, Any], stamps: Sequence[profile_ranges.Stamp]) -> None:
    """Adds ranges of this thread to a profile."""
    base = int(profile.get("baseTimeNanoseconds", 0))
    place = {"ph": "X", "cat": "user_annotation", "pid": os.getpid()}
    place["tid"] = threading.get_native_id()
    profile["traceEvents"] += [
        {**place, "name": name, "ts": (begin - base) / 1e3, "dur": (end - begin) / 1e3}
        for name, begin, end in stamps
    ]


@contextmanager
def _shaped(path: Path) -> Iterator[None]:
    """Operators with their shapes, to `path`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritten(path, error) from None
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    with profile_ranges.recorded():
        yield
    observer.stop()
    observer.unregister_callback()
    try:
        _whole(path)
    except OSError as error:
        raise _unwritten(path, error) from None


def _times(times: dict[int, float], chosen: range, end: int) -> dict[str, float | int]:
    """Medians of the steps' wall times in seconds: of recorded steps, and of those outside."""
    recorded = [seconds for number, seconds in times.items() if number in chosen]
    outside = [seconds for number, seconds in times.items() if number > end]
    return {
        "first": chosen.start,
        "last": chosen.stop - 1,
        "recorded_step_seconds": statistics.median(recorded),
        "step_seconds": statistics.median(outside or recorded),
    }
