"""Points on worker processes of this machine.

Each worker is a process of its own, fed by a thread here over a pipe: it needs nothing of the
caller's main module, and it ends with this process, however that ends. It gets enough points at
once for about `SHARE_S`, and answers each as it is done. A worker that dies (a killed process, no
memory) costs the point it was at: that point has failed, another worker goes on."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import IO

from ..errors import ArmillaryError, Problem
from .points import Point
from .runner import ENCODER, Finished
from .shares import Shares
from .worker import READY

SHARE_S = 0.05
_MOST = 256
_PACKAGE = Path(__file__).resolve().parents[2]


_TRIES = 3
"""Starts of a worker: one that is killed as it comes up has cost nothing yet."""


class WorkerError(ArmillaryError):
    """No worker process could be started."""


class Worker:
    """One process. `work` runs in one thread at a time."""

    def __init__(self, opening: bytes) -> None:
        path = os.pathsep.join([str(_PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "armillary.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.send(opening)
        self.share = 1

    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Pipes to the worker, and from it."""
        if self.process.stdin is None or self.process.stdout is None:
            raise WorkerError([Problem("", "workers", "a worker process has no pipes")])
        return self.process.stdin, self.process.stdout

    def send(self, line: bytes) -> None:
        """A line to the worker; one that has ended shows when it is read from."""
        to, _ = self.pipes()
        try:
            to.write(line + b"\n")
            to.flush()
        except OSError:
            return

    def is_ready(self) -> bool:
        """Whether it comes up."""
        return self.pipes()[1].readline() == READY

    def work(self, points: Sequence[Point]) -> Iterator[bytes]:
        """Answers one by one; fewer than there are points when the process dies."""
        began = monotonic()
        self.send(json.dumps(points).encode())
        for _ in points:
            line = self.pipes()[1].readline()
            if not line.endswith(b"\n"):
                return
            yield line[:-1]
        took = monotonic() - began
        self.share = (
            min(self.share * 2, _MOST)
            if took < SHARE_S / 2
            else max(1, self.share // (2 if took > SHARE_S else 1))
        )

    def end(self) -> str:
        """Ends the process and says how it ended."""
        self.process.kill()
        code = self.process.wait()
        for pipe in self.pipes():
            with contextlib.suppress(OSError):  # what was on its way to it
                pipe.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


class Processes:
    """Runs points on `workers` processes."""

    def __init__(self, opening: bytes, workers: int) -> None:
        self.opening, self.count = opening, workers
        self.workers: list[Worker | None] = []
        self.threads: list[threading.Thread] = []
        self.leaving = False
        self.lock = threading.Lock()
        self.slots = [threading.Lock() for _ in range(workers)]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.leaving = True
            for worker in filter(None, self.workers):
                worker.process.kill()
        for thread in self.threads:
            thread.join()
        for worker in filter(None, self.workers):
            worker.end()

    def run(self, groups: Sequence[Sequence[Point]]) -> Iterator[list[bytes]]:
        """Every point, as they end."""
        todo, out = Shares(groups, self.count), queue.SimpleQueue[bytes | Exception]()
        left = todo.left
        needed = min(self.count, left)
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        self.workers += [None] * (needed - len(self.workers))
        for slot in range(needed):
            self.threads.append(
                threading.Thread(target=self._feed, args=(slot, todo, out), daemon=True)
            )
            self.threads[-1].start()
        while left:
            found = [out.get()]
            while not out.empty():
                found.append(out.get())
            lines = [line for line in found if isinstance(line, bytes)]
            left -= len(lines)
            yield lines
            for line in found:
                if isinstance(line, Exception):
                    raise line

    def _feed(self, slot: int, todo: Shares, out: queue.SimpleQueue[bytes | Exception]) -> None:
        """Keeps one worker busy until nothing is left to do."""
        with self.slots[
            slot
        ]:  # the thread of an earlier batch may still wait for this worker to come up
            self._work(slot, todo, out)

    def _work(self, slot: int, todo: Shares, out: queue.SimpleQueue[bytes | Exception]) -> None:
        try:
            while (worker := self._worker(slot)) is not None and (
                share := todo.take(slot, worker.share)
            ):
                answered = 0
                for line in worker.work(share):
                    answered += 1
                    out.put(line)
                if answered < len(share) and not self.leaving:
                    todo.give_back(slot, share[answered + 1 :])
                    out.put(self._lost(slot, worker, share[answered]))
        except Exception as error:
            if not self.leaving:
                out.put(error)

    def _worker(self, slot: int) -> Worker | None:
        """The worker of a slot, started when there is none. Raises `WorkerError` when none comes
        up."""
        ended = ""
        for _ in range(_TRIES):
            with self.lock:
                if self.leaving:
                    return None
                worker = self.workers[slot]
                if worker is None:
                    worker = self.workers[slot] = Worker(self.opening)
                else:
                    return worker
            if worker.is_ready():
                return worker
            with self.lock:
                self.workers[slot] = None
            ended = worker.end()
        said = (
            f"{_TRIES} worker processes ended before their first point, the last one with {ended}"
        )
        raise WorkerError(
            [
                Problem(
                    "", "workers", said, "memory and processes for more of them, or fewer workers"
                )
            ]
        )

    def _lost(self, slot: int, worker: Worker, point: Point) -> bytes:
        """The point at which a worker died has failed; its slot is free for another worker."""
        self.workers[slot] = None
        index, values = point
        return ENCODER.encode(
            Finished(index, list(values), f"the worker process ended with {worker.end()}", {})
        )
