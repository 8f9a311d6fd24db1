"""Times kernels on one device, and reads its clocks.

On a GPU the calls of a measurement are one CUDA graph, and events of the GPU time its replays. The
host's launches do not count then. Calls take turns on several sets of inputs, so that no call finds
its inputs in the L2 cache (`cold`), or share one set (`warm`). Settings of the GPU are read and
never changed."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Call = Callable[[], object]

REPLAYS = 7
"""Timed replays of a measurement; the median counts."""
_SPAN_S = 4e-3
"""Seconds of a replay that a measurement aims at."""
_LONGEST_S = 0.06
"""Seconds of a replay, at most, where it has more than one call."""
_MOST_CALLS = 256
_COLD_CACHES = 3
"""Sets of inputs hold this multiple of the L2 cache."""
_MOST_SETS_BYTES = 6 * 2**30
_CPU_SPAN_S = 2e-4


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of a call: `us`, the median of the replays; `spread`, the longest less the shortest as a
    part of it; `how`, by a graph, eager calls, or the wall clock; `calls` of a replay; `sets` of
    inputs that they take turns on."""

    us: float
    spread: float
    how: str
    calls: int
    sets: int


class Device:
    """The device that is measured: a GPU, or the processor in tests."""

    def __init__(self, name: str) -> None:
        self.on_gpu = name == "cuda"
        self.torch = torch.device(name)
        self.l2_bytes = 0
        self.memory_bytes = 0
        self.multiprocessors = 0
        self.name = "cpu"
        if self.on_gpu:
            found = torch.cuda.get_device_properties(0)
            self.l2_bytes = int(getattr(found, "L2_cache_size", 50 * 10**6))
            self.memory_bytes = int(found.total_memory)
            self.multiprocessors = int(found.multi_processor_count)
            self.name = str(found.name)
            # Autograd runs a backward pass on the stream of its forward pass. That must be the one
            # that a graph is captured on.
            torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]

    def draw(self, *size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Random numbers: products of zeros are faster than those of data."""
        return torch.randn(size, device=self.torch, dtype=torch.float32).to(dtype)

    def sets(self, set_bytes: int, cold: bool) -> int:
        """Sets of inputs that take turns."""
        if not cold or not self.on_gpu:
            return 1
        wanted = 1 + _COLD_CACHES * self.l2_bytes // max(1, set_bytes)
        return max(1, min(wanted, _MOST_CALLS, _MOST_SETS_BYTES // max(1, set_bytes)))

    def wait(self) -> None:
        """Waits until the device has done everything."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def timed(self, calls: Sequence[Call], graph: bool = True) -> Timing:
        """Time of one of `calls`, which take turns."""
        for call in calls:
            call()
        self.wait()
        if not self.on_gpu:
            return self._walls(calls)
        once = self._events(calls[0])
        count = min(_MOST_CALLS, max(len(calls), int(_SPAN_S / max(once, 1e-6))))
        count = max(1, min(count, int(_LONGEST_S / max(once, 1e-6))))

        def many() -> None:
            for at in range(count):
                calls[at % len(calls)]()

        replay, how = many, "eager"
        if graph:
            captured = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(captured, stream=torch.cuda.current_stream()):
                    many()
                replay, how = captured.replay, "graph"
            except RuntimeError:
                self.wait()
        replay()
        times = [self._events(replay) / count for _ in range(REPLAYS)]
        return _timing(times, how, count, len(calls))

    def wall(self, call: Call) -> Timing:
        """Time of a call from the host's side, with the wait for its end."""
        call()
        self.wait()
        times = []
        for _ in range(REPLAYS):
            begin = time.perf_counter()
            call()
            self.wait()
            times.append(time.perf_counter() - begin)
        return _timing(times, "wall", 1, 1)

    def each(self, call: Call, count: int) -> list[float]:
        """Seconds of each of `count` calls in a row. On a GPU the host runs ahead of it."""
        if not self.on_gpu:
            stamps = [time.perf_counter()]
            for _ in range(count):
                call()
                stamps.append(time.perf_counter())
            return [end - start for start, end in itertools.pairwise(stamps)]
        events = [_event() for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            call()
            event.record()
        self.wait()
        return [start.elapsed_time(end) / 1e3 for start, end in itertools.pairwise(events)]

    def _walls(self, calls: Sequence[Call]) -> Timing:
        begin = time.perf_counter()
        calls[0]()
        once = time.perf_counter() - begin
        count = max(1, min(_MOST_CALLS, int(_CPU_SPAN_S / max(once, 1e-9))))
        times = []
        for _ in range(REPLAYS):
            begin = time.perf_counter()
            for at in range(count):
                calls[at % len(calls)]()
            times.append((time.perf_counter() - begin) / count)
        return _timing(times, "wall", count, len(calls))

    def _events(self, call: Call) -> float:
        """Seconds between two events of the GPU around a call."""
        start, end = _event(), _event()
        start.record()
        call()
        end.record()
        self.wait()
        return float(start.elapsed_time(end)) / 1e3


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _timing(times: Sequence[float], how: str, calls: int, sets: int) -> Timing:
    median = statistics.median(times)
    return Timing(1e6 * median, (max(times) - min(times)) / max(median, 1e-12), how, calls, sets)


_QUERIED = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_KEYS = ("clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")
_EVERY_MS = 200


class Readings:
    """Clocks, power and temperature of the GPU, as `nvidia-smi` reports them five times a second.
    Without that program, and on a processor, there are none."""

    def __init__(self, on_gpu: bool) -> None:
        self._found: list[tuple[float, tuple[float, ...]]] = []
        self._process: subprocess.Popen[str] | None = None
        if not on_gpu:
            return
        command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_QUERIED)}"]
        command += ["--format=csv,noheader,nounits", "-lms", str(_EVERY_MS)]
        try:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError:
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                values = tuple(float(each) for each in line.split(","))
            except ValueError:
                continue  # A value that this GPU does not report.
            if len(values) == len(_KEYS):
                self._found.append((time.monotonic(), values))

    def between(self, begin: float, end: float) -> dict[str, float] | None:
        """Medians of the readings between two times of `time.monotonic`."""
        inside = [values for at, values in self._found if begin <= at <= end]
        if not inside:
            return None
        medians = (statistics.median(column) for column in zip(*inside, strict=True))
        return dict(zip(_KEYS, medians, strict=True)) | {"readings": len(inside)}

    def stop(self) -> None:
        """Ends the program."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
