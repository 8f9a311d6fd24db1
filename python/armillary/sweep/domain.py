"""Domain of a parameter: values, a range, a normal distribution. Grid values, and draws from a
number in [0, 1).

A range with units keeps them: from 25 GB/s to 400 GB/s gives `25 GB/s`, `106.25 GB/s`, ... with six
significant digits. Not here: which parameter it is and who draws (`reader.py`, `points.py`,
`search.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from ..declared import Source
from ..documents import Path_
from ..units import number_text, split

ALLOWED = (
    "a list of values, {from, to} with steps and scale: linear or log, or (random search) "
    "{mean, deviation}; values are numbers, true, false, texts, or lists of these"
)
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Values:
    """One of several values."""

    values: tuple[Any, ...]

    def grid(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    def draw(self, u: float) -> object:
        """Each as likely."""
        return self.values[int(u * len(self.values))]


@dataclass(frozen=True, slots=True)
class Range:
    """A range from `low` to `high`, both included, in `unit`; `steps` values in a grid."""

    low: Fraction
    high: Fraction
    unit: str
    whole: bool
    log: bool
    steps: int | None

    def grid(self) -> tuple[Any, ...]:
        """`steps` values; whole numbers without steps are all of them."""
        if self.steps is None:
            return tuple(range(int(self.low), int(self.high) + 1))
        places = [Fraction(i, max(self.steps - 1, 1)) for i in range(self.steps)]
        return tuple(dict.fromkeys(self.shown(self.at(place)) for place in places))

    def draw(self, u: float) -> object:
        """Uniform, or uniform in the logarithm."""
        if self.steps is not None:
            return (grid := self.grid())[int(u * len(grid))]
        if self.whole and not self.log:
            return int(self.low) + int(u * (int(self.high) - int(self.low) + 1))
        return self.shown(self.at(Fraction(u)))

    def at(self, place: Fraction) -> Fraction:
        """The value at `place`, 0 the low end and 1 the high one."""
        if not self.log:
            return self.low + (self.high - self.low) * place
        if place in (0, 1):
            return self.high if place else self.low
        return Fraction(float(self.low) * math.pow(float(self.high / self.low), float(place)))

    def shown(self, value: Fraction | float) -> object:
        """The value as a study has it: whole number, number, or text with the unit."""
        if self.whole:
            return round(value)
        return _shown(value, self.unit)


@dataclass(frozen=True, slots=True)
class Normal:
    """Normally distributed, for random searches."""

    mean: Fraction
    deviation: Fraction
    unit: str

    def draw(self, u: float) -> object:
        """By the inverse of the distribution."""
        z = NormalDist().inv_cdf(min(max(u, 2.0**-53), 1 - 2.0**-53))
        return _shown(float(self.mean) + z * float(self.deviation), self.unit)


Domain = Values | Range | Normal


def _shown(value: Fraction | float, unit: str) -> object:
    text = number_text(value)
    return f"{text} {unit}" if unit else float(text)


def read(raw: object, source: Source, path: Path_) -> Domain | None:
    """The domain `raw` describes, or nothing and a problem of `source`."""
    if isinstance(raw, list):
        raw = {"values": raw}
    if not isinstance(raw, dict):
        source.fault(path, f"{raw!r} is not a set of values", ALLOWED)
        return None
    kinds = {"values": _values, "from": _range, "mean": _normal}
    named = [kind for kind in kinds if kind in raw]
    if len(named) != 1:
        source.fault(path, "says " + (" and ".join(named) if named else "no values"), ALLOWED)
        return None
    return kinds[named[0]](raw, source, path)


def _unknown(raw: dict[str, Any], known: set[str], source: Source, path: Path_) -> None:
    for key in raw:
        if key not in known:
            source.fault((*path, str(key)), "unknown key", ", ".join(sorted(known)))


def is_value(raw: object) -> bool:
    """Whether a parameter can be `raw`."""
    if isinstance(raw, list):
        return all(is_value(item) for item in raw)
    return isinstance(raw, str | int) or (isinstance(raw, float) and math.isfinite(raw))


def _values(raw: dict[str, Any], source: Source, path: Path_) -> Values | None:
    _unknown(raw, {"values"}, source, path)
    values = raw["values"]
    if not isinstance(values, list) or not values:
        source.fault(path, f"{values!r} is not a list of values", "at least one value")
        return None
    for index, item in enumerate(values):
        if not is_value(item):
            source.fault((*path, index), f"invalid value: {item!r}", ALLOWED)
        elif any(_same(item, earlier) for earlier in values[:index]) and len(values) < 1000:
            source.fault((*path, index), f"{item!r} is there twice", "each value once")
    return Values(tuple(values))


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and bool(one == other)


def _number(raw: object) -> tuple[Fraction, str] | None:
    """Number and unit; no unit for plain numbers."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int) or (isinstance(raw, float) and math.isfinite(raw)):
        return Fraction(str(raw)), ""
    return split(raw) if isinstance(raw, str) else None


def _pair(
    raw: dict[str, Any], keys: tuple[str, str], source: Source, path: Path_
) -> tuple[Fraction, Fraction, str] | None:
    """The numbers at two keys, which must be of one unit."""
    first, second = (_number(raw.get(key)) for key in keys)
    for key, number in zip(keys, (first, second), strict=True):
        if number is None:
            said = f"{raw[key]!r} is not a number" if key in raw else "is missing"
            source.fault(
                (*path, key) if key in raw else path,
                f"{key} {said}",
                'a number, or text with a unit, "25 GB/s"',
            )
    if first is None or second is None:
        return None
    (low, unit), (high, other) = first, second
    if unit != other:
        source.fault(
            path,
            f"{keys[0]} is in {unit or 'no unit'}, {keys[1]} in {other or 'no unit'}",
            "the same unit",
        )
        return None
    return low, high, unit


def _range(raw: dict[str, Any], source: Source, path: Path_) -> Range | None:
    _unknown(raw, {"from", "to", "steps", "scale"}, source, path)
    ends, steps, scale = (
        _pair(raw, ("from", "to"), source, path),
        raw.get("steps"),
        raw.get("scale", "linear"),
    )
    if scale not in ("linear", "log"):
        source.fault((*path, "scale"), f"unknown scale {scale!r}", "linear, log")
    if steps is not None and (
        not isinstance(steps, int) or isinstance(steps, bool) or not 2 <= steps <= _MOST
    ):
        source.fault(
            (*path, "steps"),
            f"invalid number of values: {steps!r}",
            f"a whole number from 2 to {_MOST:,}",
        )
        return None
    if ends is None:
        return None
    low, high, unit = ends
    if low >= high or (scale == "log" and low <= 0):
        least = "above 0 " if scale == "log" else ""
        source.fault(
            path, f"from {raw['from']} to {raw['to']} is not a range", f"from {least}below to"
        )
        return None
    whole = isinstance(raw["from"], int) and isinstance(raw["to"], int)
    if whole and steps is None and high - low >= _MOST:
        source.fault(
            path, f"has {int(high - low) + 1:,} whole numbers", f"steps, or at most {_MOST:,}"
        )
        return None
    return Range(low, high, unit, whole, scale == "log", steps)


def _normal(raw: dict[str, Any], source: Source, path: Path_) -> Normal | None:
    _unknown(raw, {"mean", "deviation"}, source, path)
    found = _pair(raw, ("mean", "deviation"), source, path)
    if found is None:
        return None
    if found[1] <= 0:
        source.fault((*path, "deviation"), f"invalid deviation: {raw['deviation']}", "above 0")
        return None
    return Normal(*found)
