"""The goal of a search over machines: the objective, and the job that has to be done in time.

Not here: the machines (`machines.py`), the search (`joint.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from ..errors import InputError, Problem
from ..units import NS_PER_S
from .machines import Machine

Objective = Literal["time", "cost", "memory"]
"""The fastest step, the most tokens for a dollar, or the least memory of the fullest rank."""
_TOKENS = "a number such as 300B or 15T"
_POWERS = {"": 0, "k": 3, "m": 6, "b": 9, "g": 9, "t": 12}
_MOST_TOKENS = 1e18
_HOUR_NS, _DAY_NS = 3600 * NS_PER_S, 86400 * NS_PER_S
_MOST_DAYS = 1e6


@dataclass(frozen=True)
class Goal:
    """Objective and job."""

    objective: Objective
    step_tokens: int
    """Tokens of a step."""
    tokens: float | None = None
    """Tokens that are to be trained."""
    limit_days: float | None = None
    """Days in which that has to be done."""

    @property
    def steps(self) -> int | None:
        """Steps of the job."""
        return None if self.tokens is None else math.ceil(self.tokens / self.step_tokens)

    @property
    def limit_ns(self) -> float:
        """The longest step that is in time."""
        if self.limit_days is None or self.steps is None:
            return math.inf
        return self.limit_days * _DAY_NS / self.steps

    def days(self, step_ns: float) -> float | None:
        """Days of the job."""
        return None if self.steps is None else self.steps * step_ns / _DAY_NS

    def dollars(self, machine: Machine, step_ns: float) -> float | None:
        """Dollars of the job."""
        if self.steps is None or machine.price is None:
            return None
        return self.steps * step_ns * dollars_per_ns(machine)

    def tokens_per_dollar(self, machine: Machine, step_ns: float) -> float | None:
        """Tokens for a dollar."""
        if machine.price is None:
            return None
        return self.step_tokens / (step_ns * dollars_per_ns(machine))

    def weight(self, machine: Machine) -> float:
        """The weight of a ns of a step on a machine; the best machine has the least sum."""
        return dollars_per_ns(machine) if self.objective == "cost" else 1.0


def dollars_per_ns(machine: Machine) -> float:
    """Dollars of all NPUs of a machine that has a price."""
    return machine.ranks * (machine.price or 0.0) / _HOUR_NS


def goal(
    objective: str | None,
    tokens: str | float | None,
    days: float | None,
    step_tokens: int,
    machines: Sequence[Machine],
) -> Goal:
    """The goal of a plan: without an objective the fastest step, or for a job with a limit of days
    the least dollars. Raises `InputError` listing every problem."""
    problems = []
    wanted = objective or ("time" if days is None else "cost")
    if wanted not in get_args(Objective):
        allowed = ", ".join(get_args(Objective))
        problems.append(Problem("", "--objective", f"unknown objective: {wanted}", allowed))
    count = None if tokens is None else _count(tokens)
    if tokens is not None and count is None:
        problems.append(Problem("", "--tokens", f"invalid number: {tokens}", _TOKENS))
    if days is not None and not 0 < days <= _MOST_DAYS:
        problems.append(Problem("", "--days", f"invalid number: {days:g}", "more than 0"))
    if days is not None and tokens is None:
        problems.append(Problem("", "--days", "says nothing without --tokens", "--tokens 15T"))
    if days is not None and wanted == "memory":
        said = "the least memory within a limit of days is not searched"
        problems.append(Problem("", "--objective", said, "time, cost"))
    if wanted == "cost":
        bare = dict.fromkeys(each.name for each in machines if each.price is None)
        allowed = "--price {}=DOLLARS of an NPU hour"
        problems += [
            Problem("", "--price", f"{name} has no price", allowed.format(name)) for name in bare
        ]
    if problems:
        raise InputError(problems)
    return Goal(cast(Objective, wanted), step_tokens, count, days)


def _count(given: str | float) -> float | None:
    """Tokens of `15T`, `300 B` or a number; none where they are not valid."""
    match = re.fullmatch(
        r"(\d{1,18}(?:\.\d{1,9})?(?:e\+?\d{1,2})?)\s*([kmbgt]?)", str(given).strip().lower()
    )
    count = float(match[1]) * 10 ** _POWERS[match[2]] if match else 0.0
    return count if 1 <= count <= _MOST_TOKENS else None
