"""The machines that a plan may choose from: numbers of NPUs of platforms, with their prices.

Not here: which of them is the best (`joint.py`), what "best" means (`goal.py`)."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError, Problem
from ..option_fields import near
from ..platform import AnyPlatform, Platform

_MOST = 100
"""Machines of one search."""
_PRICE = "PLATFORM=DOLLARS of an NPU hour, such as dgx-h100-16n=2.5"
_RANKS = "numbers such as 256,512 or 256..1024, which doubles"
_MOST_DOLLARS = 1e9


@dataclass(frozen=True)
class Machine:
    """A number of NPUs of a platform."""

    platform: Platform
    name: str
    """The platform as the user named it."""
    price: float | None = None
    """Dollars of an NPU hour, if they are stated."""

    @property
    def ranks(self) -> int:
        """NPUs."""
        return self.platform.npus


def read_ranks(text: str) -> tuple[int, ...]:
    """`256`, `256,512` or `256..1024`, which doubles from the first number on. Raises `InputError`
    listing every problem."""
    found: list[int] = []
    wrong = []
    for item in (each.strip() for each in text.split(",")):
        ends = re.fullmatch(r"([1-9]\d{0,8})(?:\.\.([1-9]\d{0,8}))?", item)
        first = int(ends[1]) if ends else 1
        last = int(ends[2] or ends[1]) if ends else 0
        if first > last:
            wrong.append(item)
        while first <= last:
            found.append(first)
            first *= 2
    if wrong:
        raise InputError(
            [Problem("", "--ranks", f'invalid number: "{item}"', _RANKS) for item in wrong]
        )
    return tuple(dict.fromkeys(found))


def read_prices(texts: Sequence[str]) -> dict[str, float]:
    """Dollars by platform of texts such as `dgx-h100-16n=2.5`. Raises `InputError` listing every
    problem."""
    found: dict[str, float] = {}
    problems = []
    for text in texts:
        name, equals, raw = (each.strip() for each in text.rpartition("="))
        number = re.fullmatch(r"\$?(\d{1,9}(?:\.\d{1,9})?)", raw)
        if not equals or not name or number is None:
            problems.append(Problem("--price", text, "is not a price", _PRICE))
        elif name in found:
            problems.append(Problem("--price", name, "is given twice", "once"))
        else:
            found[name] = float(number[1])
    if problems:
        raise InputError(problems)
    return found


def machines(
    platforms: Sequence[AnyPlatform],
    ranks: Sequence[int],
    prices: Mapping[str, float],
    settings: Mapping[str, object],
) -> list[Machine]:
    """Each number of NPUs of each platform; no number stands for the platform's own. `settings`
    are for platforms that are named. Raises `InputError` listing every problem."""
    found: list[Machine] = []
    problems: list[Problem] = []
    if not platforms:
        raise InputError([Problem("", "--platform", "there is none", "one or more platforms")])
    if len(platforms) * max(len(ranks), 1) > _MOST:
        said = f"{len(platforms) * len(ranks)} machines"
        raise InputError([Problem("", "--ranks", said, f"at most {_MOST}")])
    for platform in platforms:
        name = platform.name if isinstance(platform, Platform) else os.fspath(platform)
        for count in ranks or (None,):
            try:
                target = Platform.of(platform, settings, npus=count)
            except InputError as error:
                problems += error.problems
                continue
            price = prices.get(name, prices.get(target.name))
            if any(each.name == name and each.ranks == target.npus for each in found):
                problems.append(Problem("", "--platform", f"{name} is given twice", "once"))
                break
            found.append(Machine(target, name, price))
    problems += _wrong_prices(prices, found)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return found


def _wrong_prices(prices: Mapping[str, float], found: Sequence[Machine]) -> list[Problem]:
    known = [*dict.fromkeys(each.name for each in found)]
    names = {*known, *(each.platform.name for each in found)}
    wrong = []
    for name, price in prices.items():
        if name not in names:
            wrong.append(
                Problem(
                    "--price", name, "is not a platform of this plan", near(name, known) or _PRICE
                )
            )
        elif not (math.isfinite(price) and 0 < price <= _MOST_DOLLARS):
            wrong.append(Problem("--price", name, f"invalid price: {price:g}", "more than 0"))
    return wrong
