"""Work with pauses, so that other work can be done while something is under way."""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""A function that pauses by `yield` before it waits, and returns a `T`."""


class Coroutine(Generic[T]):
    """A function that is carried out piece by piece."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps, self._found = steps, list[T]()

    def go_on(self) -> None:
        """Goes on to the next pause, or to the end."""
        if not self._found:
            try:
                next(self._steps)
            except StopIteration as end:
                self._found.append(end.value)

    def finish(self) -> T:
        """Goes on to the end, and returns the result."""
        while not self._found:
            self.go_on()
        return self._found[0]


def finished(steps: Steps[T]) -> T:
    """The result of a function without pauses."""
    return Coroutine(steps).finish()
