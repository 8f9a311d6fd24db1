"""Which worker gets which points. A worker gets those of one workload after the other, since making
a workload takes longer than simulating it. When all have been given out, it gets half of those that
another worker has not begun."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence

from .points import Point


class Shares:
    """Points that are left, in groups of one workload each. Its methods may be called from any
    thread."""

    def __init__(self, groups: Iterable[Sequence[Point]], workers: int) -> None:
        self.workers, self.lock = workers, threading.Lock()
        self.untouched = deque(deque(group) for group in groups if group)
        self.begun: dict[int, deque[Point]] = {}
        self.left = sum(map(len, self.untouched))

    def take(self, worker: int, most: int) -> list[Point]:
        """The next points of a worker, at most `most` and no more than leave work for the others;
        none at the end."""
        with self.lock:
            own = self._own(worker)
            count = min(most, -(-self.left // self.workers), len(own))
            self.left -= count
            return [own.popleft() for _ in range(count)]

    def give_back(self, worker: int, points: Sequence[Point]) -> None:
        """Give back points that a worker took and has not begun."""
        with self.lock:
            self.begun.setdefault(worker, deque()).extendleft(reversed(points))
            self.left += len(points)

    def _own(self, worker: int) -> deque[Point]:
        own = self.begun.setdefault(worker, deque())
        if not own and self.untouched:
            own = self.begun[worker] = self.untouched.popleft()
        if not own:
            richest = max(self.begun.values(), key=len)
            own.extendleft([richest.pop() for _ in range(-(-len(richest) // 2))])
        return own
