"""Records chosen steps of a training with PyTorch's profiler, one pair of files for each rank.

Here: when the profiler and the execution trace observer work, and the files. Not here: the names of
what they record (`ranges.py`), reading them (`workload/importer`).

    DIR/kineto-rank0.json       times of operators and ranges in all chosen steps
    DIR/execution-rank0.json    operators with shapes in the step behind them

Operators take longer while shapes are recorded. So the execution trace has a step of its own, and
durations come from steps without it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import torch

from ..errors import InputError, Problem
from . import ranges
from .data import Part
from .settings import Settings
from .world import World

Window = tuple[Part, Sequence[Part]]


class Course(Protocol):
    """The course of a run: how many steps are done, and what was found about recorded ones."""

    steps: int
    trace: dict[str, float | int] | None


STEP = "ProfilerStep#"
"""How PyTorch's own profiler names a step."""


def steps(
    windows: Iterator[Window], settings: Settings, world: World, course: Course
) -> Iterator[Window]:
    """The same windows; a step is from the request for its window to that for the next one. Those
    of `settings.trace_steps` are recorded. Raises `InputError` when a file can't be written."""
    if settings.trace is None:
        yield from windows
        return
    folder, chosen = Path(settings.trace), settings.traced
    _make(folder)
    times: dict[int, float] = {}
    with ExitStack() as stack:
        while True:
            number = course.steps + 1
            if number == chosen.start:
                stack.enter_context(_timed(folder / f"kineto-rank{world.rank}.json"))
            if number == chosen.stop:
                stack.close()
                stack.enter_context(_shaped(folder / f"execution-rank{world.rank}.json"))
            begin = time.perf_counter()
            with ranges.part(f"{STEP}{number}"):
                with ranges.part("data"):
                    window = next(windows, None)
                if window is None:
                    break
                yield window
            times[number] = time.perf_counter() - begin
            if number == chosen.stop:
                stack.close()
    if chosen.stop not in times:
        said = f"the run ends with step {course.steps}"
        raise InputError([Problem("", "--trace-steps", said, f"A:B with B below {course.steps}")])
    course.trace = _times(times, chosen)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        said = f"can't be made: {error.strerror}"
        raise InputError([Problem(str(folder), "--trace", said, "a folder")]) from None


@contextmanager
def _timed(path: Path) -> Iterator[None]:
    """Times of what is done within, to `path`."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    profile = torch.profiler.profile(activities=kinds)
    profile.start()
    with ranges.recorded():
        yield
    profile.stop()
    profile.export_chrome_trace(str(path))


@contextmanager
def _shaped(path: Path) -> Iterator[None]:
    """Operators with their shapes, to `path`."""
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    with ranges.recorded():
        yield
    observer.stop()
    observer.unregister_callback()


def _times(times: dict[int, float], chosen: range) -> dict[str, float | int]:
    """Medians of the steps' wall times in seconds: of recorded steps, and of those outside."""
    recorded = [seconds for number, seconds in times.items() if number in chosen]
    outside = [seconds for number, seconds in times.items() if number > chosen.stop]
    return {
        "first": chosen.start,
        "last": chosen.stop - 1,
        "recorded_step_seconds": statistics.median(recorded),
        "step_seconds": statistics.median(outside or recorded),
    }
