"""Descent along one coordinate at a time, for fits.

A *move* changes one coordinate by a factor or an amount. A move that lowers the loss is repeated
until it no longer does. A round tries all moves of one size on all coordinates, in their order.
Rounds of a size go on while each lowers the loss by `enough`, and there are at most `rounds`. Then
come the moves of the next size. Nothing is drawn, so the same input ends at the same point.

The losses of fits are sums of absolute errors with prices, which have kinks and flat parts.
Minimisers that need slopes stop there, so those of libraries are not used. A descent ends where no
single move of the last size lowers the loss, which may be a valley that is not the deepest. Not
here: ways out of such valleys (`search.py`), and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

_Key = TypeVar("_Key")
Moves = tuple[tuple[float, ...], ...]
"""Moves by size, the largest first."""


def factors(*sizes: float) -> Moves:
    """Multiplications and divisions by each size."""
    return tuple((size, 1 / size) for size in sizes)


def offsets(*sizes: float) -> Moves:
    """Additions and subtractions of each size."""
    return tuple((size, -size) for size in sizes)


def descend(
    keys: Iterable[_Key],
    moves: Moves,
    attempt: Callable[[_Key, float], float],
    *,
    enough: float = 0.0,
    rounds: int | None = 1,
    after: Callable[[tuple[float, ...]], float] = lambda _: 0.0,
) -> float:
    """How much a descent lowers the loss.

    `attempt` makes a move and returns how much that lowers the loss, or undoes it and returns 0.
    `after` may do more after each round, and returns the same. Without a limit on `rounds`, a size
    ends with a round that lowers the loss by no more than `enough`."""
    coordinates, total = list(keys), 0.0
    for size in moves:
        done = 0
        while rounds is None or done < rounds:
            gained = one_round(coordinates, size, attempt) + after(size)
            total, done = total + gained, done + 1
            if gained <= enough:
                break
    return total


def one_round(
    keys: Sequence[_Key], size: tuple[float, ...], attempt: Callable[[_Key, float], float]
) -> float:
    """How much one round lowers the loss."""
    gained = 0.0
    for key in keys:
        for move in size:
            while better := attempt(key, move):
                gained += better
    return gained


@dataclass
class Point:
    """Values by name that moves multiply, and the least loss so far."""

    loss: Callable[[Mapping[str, float]], float]
    values: dict[str, float]
    gain: float
    """Least that a move must lower the loss by."""
    allowed: Callable[[str, float], bool] = lambda _key, _value: True
    """Whether a parameter may have a value."""
    least: float = field(init=False)

    def __post_init__(self) -> None:
        self.least = self.loss(self.values)

    def attempt(self, key: str, factor: float) -> float:
        """Multiplies a value if that lowers the loss, and returns by how much."""
        value = self.values[key] * factor
        return self.take({**self.values, key: value}) if self.allowed(key, value) else 0.0

    def take(self, values: Mapping[str, float]) -> float:
        """Goes to other values if the loss is lower there, and returns by how much."""
        loss = self.loss(values)
        lower = self.least - loss
        if not lower > self.gain or not math.isfinite(loss):
            return 0.0
        self.values, self.least = dict(values), loss
        return lower
