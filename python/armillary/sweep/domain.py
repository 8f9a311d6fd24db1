"""Domain of a parameter, as a study's file says it: values, a range, a normal distribution. Grid
values, and draws from a number in [0, 1).

A range with units keeps them: from 25 GB/s to 400 GB/s gives `25 GB/s`, `106.25 GB/s`, ... with six
significant digits. Not here: which parameter it is and who draws (`reader.py`, `points.py`,
`search.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Annotated, Any, Literal, NamedTuple

from ..declared import Allowed, Made, Several, Short, Within, Wrong
from ..units import number_text, split

ALLOWED = (
    "a list of values, {from, to} with steps and scale: linear or log, or (random search) "
    "{mean, deviation}; values are numbers, true, false, texts, or lists of these"
)
TARGETS = (
    "backend, workload.model, workload.path, workload.<option>, platform.file, "
    "platform.npus, platform.<key>"
)
_MOST = 1_000_000


class Quantity(NamedTuple):
    """A number and its unit, empty for a plain number."""

    amount: Fraction
    unit: str
    text: str
    """The number as the file has it."""
    whole: bool


def _quantity(raw: object) -> Quantity:
    parted = split(raw) if isinstance(raw, str) else None
    if isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw):
        parted = Fraction(str(raw)), ""
    if parted is None:
        raise Wrong(f"{raw!r} is not a number")
    return Quantity(*parted, str(raw), isinstance(raw, int))


def is_value(raw: object) -> bool:
    """Whether a parameter can be `raw`."""
    if isinstance(raw, list):
        return all(is_value(item) for item in raw)
    return isinstance(raw, str | int) or (isinstance(raw, float) and math.isfinite(raw))


def _value(raw: object) -> object:
    if not is_value(raw):
        raise Wrong(f"invalid value: {raw!r}")
    return raw


def _values(raw: object) -> tuple[Any, ...]:
    if not isinstance(raw, list) or not raw:
        allowed = "at least one value" if raw == [] else ALLOWED
        raise Wrong(f"{raw!r} is not a list of values", allowed)
    for index, item in enumerate(raw):
        if not is_value(item):
            raise Wrong(f"invalid value: {item!r}", ALLOWED, index)
        if len(raw) < 1000 and any(_same(item, earlier) for earlier in raw[:index]):
            raise Wrong(f"{item!r} is there twice", "each value once", index)
    return tuple(raw)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and bool(one == other)


def _require_one_unit(**two: Quantity) -> None:
    if len({each.unit for each in two.values()}) > 1:
        said = (f"{key} is in {each.unit or 'no unit'}" for key, each in two.items())
        raise Wrong(", ".join(said), "the same unit")


Value = Annotated[object, Made(_value), Allowed(ALLOWED)]
_Quantity = Annotated[
    Quantity, Made(_quantity), Allowed('a number, or text with a unit, "25 GB/s"')
]
_Targets = Annotated[tuple[str, ...], Several(), Within(1, 1000), Allowed(TARGETS)]


@dataclass(frozen=True, slots=True)
class Values:
    """One of several values."""

    values: Annotated[tuple[Any, ...], Made(_values)]
    set: _Targets = ()
    """Targets of the parameter; without any, its name is the target."""

    def grid(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    def draw(self, u: float) -> object:
        """Each as likely."""
        return self.values[int(u * len(self.values))]


@dataclass(frozen=True, slots=True)
class Range:
    """A range, both ends included; `steps` values in a grid."""

    from_: _Quantity
    to: _Quantity
    steps: Annotated[int, Within(2, _MOST)] | None = None
    scale: Literal["linear", "log"] = "linear"
    set: _Targets = ()

    def __post_init__(self) -> None:
        _require_one_unit(**{"from": self.from_, "to": self.to})
        if self.low >= self.high or (self.log and self.low <= 0):
            said = f"from {self.from_.text} to {self.to.text} is not a range"
            raise Wrong(said, f"from {'above 0 ' if self.log else ''}below to")
        if self.whole and self.steps is None and self.high - self.low >= _MOST:
            said = f"has {int(self.high - self.low) + 1:,} whole numbers"
            raise Wrong(said, f"steps, or at most {_MOST:,}")

    @property
    def low(self) -> Fraction:
        """The lower end, in the unit of both."""
        return self.from_.amount

    @property
    def high(self) -> Fraction:
        """The upper end."""
        return self.to.amount

    @property
    def whole(self) -> bool:
        """Whether both ends are whole numbers, without a unit."""
        return self.from_.whole and self.to.whole

    @property
    def log(self) -> bool:
        """Whether steps are even on a logarithmic scale."""
        return self.scale == "log"

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
        return _shown(value, self.from_.unit)


@dataclass(frozen=True, slots=True)
class Normal:
    """Normally distributed, for random searches."""

    mean: _Quantity
    deviation: _Quantity
    set: _Targets = ()

    def __post_init__(self) -> None:
        _require_one_unit(mean=self.mean, deviation=self.deviation)
        if self.deviation.amount <= 0:
            said = f"invalid deviation: {self.deviation.text}"
            raise Wrong(said, "above 0", "deviation")

    def draw(self, u: float) -> object:
        """By the inverse of the distribution."""
        z = NormalDist().inv_cdf(min(max(u, 2.0**-53), 1 - 2.0**-53))
        value = float(self.mean.amount) + z * float(self.deviation.amount)
        return _shown(value, self.mean.unit)


Domain = Values | Range | Normal
Declared = Annotated[Domain, Short("values"), Allowed(ALLOWED)]


def _shown(value: Fraction | float, unit: str) -> object:
    text = number_text(value)
    return f"{text} {unit}" if unit else float(text)
