"""Linear constraints on bandwidths as text: `bw[0] >= bw[1]`, `bw[2] + bw[3] == 200 GB/s`, `cost <=
15 M$`.

Here: the language, and its meaning for a topology. Not here: what is done with constraints
(`optimal.py`).

    constraint := sum (("<=" | ">=" | "==") sum)+
    sum        := product (("+" | "-") product)*
    product    := factor (("*" | "/") factor)*
    factor     := number [unit] | "bw[" index or technology "]" | "total" | "cost"
                | "(" sum ")" | "-" factor

`bw[d]` is the bandwidth of an NPU in dimension d, counted from 0, or from the outermost with -1;
`bw[nic]` the sum over the dimensions of a technology; `total` over all; `cost` what the network
costs. A constraint on a dimension that a topology has not got says nothing about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..units import base
from .optimal import Constraint

HELP = "such as bw[0] >= bw[1], bw[2] + bw[3] == 200 GB/s, total <= 1 TB/s, cost <= 15 M$"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:\s*(?P<unit>[kMGT]?\$|[A-Za-z][A-Za-z/]*))?"
    r"|bw\s*\[\s*(?P<key>-?\d+|[A-Za-z_]\w*)\s*\]|(?P<word>total|cost)\b|(?P<sign><=|>=|==|[-+*/()]))"
)
_MONEY = {"$": 1, "k$": 10**3, "M$": 10**6, "G$": 10**9, "T$": 10**12}
MOST_TEXT = 500
_DEPTH = 50


class ConstraintError(Exception):
    """The text is not a constraint."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Multiples of bandwidths, plus a constant in the same unit."""

    unit: str
    """`B/s`, `$`, or nothing for a plain number."""
    constant: Fraction
    parts: tuple[tuple[str, Fraction], ...] = ()
    """`0`, `-1`, a technology, `total` or `cost`, and how often."""

    def times(self, factor: Fraction) -> Sum:
        """That many times as much."""
        return Sum(
            self.unit,
            self.constant * factor,
            tuple((key, value * factor) for key, value in self.parts),
        )

    def plus(self, other: Sum) -> Sum:
        """Sum of both expressions. Raises `ConstraintError` for unequal units."""
        if self.unit != other.unit:
            one, two = (each.unit or "a plain number" for each in (self, other))
            raise ConstraintError(f"{one} and {two} don't add up or compare")
        return Sum(self.unit, self.constant + other.constant, (*self.parts, *other.parts))


@dataclass(frozen=True, slots=True)
class Written:
    """A constraint as written: `left <= 0`, or `== 0`."""

    name: str
    left: Sum
    equal: bool

    @property
    def costs(self) -> bool:
        """Whether it speaks of the cost."""
        return any(key == "cost" for key, _ in self.left.parts)

    @property
    def caps_cost(self) -> bool:
        """Whether it holds for every smaller cost if it does for some."""
        return (
            not self.equal
            and sum((value for key, value in self.left.parts if key == "cost"), Fraction(0)) >= 0
        )

    @property
    def technologies(self) -> set[str]:
        """Technologies it names."""
        return {key for key, _ in self.left.parts if not re.fullmatch(r"-?\d+", key)} - {
            "total",
            "cost",
        }

    def bind(self, stack: Sequence[str], price: Sequence[float]) -> Constraint | None:
        """The constraint on a topology with these technologies and prices (dollars for a byte a
        second), with a coefficient for each dimension."""
        row = [0.0] * len(stack)
        for key, value in self.left.parts:
            dims = _dimensions(key, stack)
            if dims is None:
                return None
            for d in dims:
                row[d] += float(value) * (price[d] if key == "cost" else 1.0)
        if not any(row):
            return None
        return Constraint(self.name, tuple(row), float(-self.left.constant), self.equal)


def _dimensions(key: str, stack: Sequence[str]) -> list[int] | None:
    """The dimensions that `key` names; nothing where it names one that isn't there."""
    if key in ("total", "cost"):
        return list(range(len(stack)))
    if re.fullmatch(r"-?\d+", key):
        at = int(key)
        return [at % len(stack)] if -len(stack) <= at < len(stack) else None
    return [d for d, each in enumerate(stack) if each == key] or None


def read(text: str) -> list[Written]:
    """The constraints of `text`, one for each comparison. Raises `ConstraintError`."""
    if len(text) > MOST_TEXT:
        raise ConstraintError(f"{len(text)} characters, more than {MOST_TEXT}")
    parser = _Parser(text)
    sides, signs = [parser.sum()], []
    while parser.sign in ("<=", ">=", "=="):
        signs.append(parser.next())
        sides.append(parser.sum())
    if not signs:
        raise ConstraintError("it has no comparison")
    if parser.at < len(parser.tokens):
        raise ConstraintError(
            "an operator is missing between two values, or a bracket is one too many"
        )
    found = []
    for sign, left, right in zip(signs, sides, sides[1:], strict=False):
        low, high = (right, left) if sign == ">=" else (left, right)
        found.append(Written(text.strip(), low.plus(high.times(Fraction(-1))), sign == "=="))
    if not any(each.left.parts for each in found):
        raise ConstraintError("it says nothing about a bandwidth")
    return found


class _Parser:
    """Reads sums from left to right; `sign` is the operator ahead, `None` at the end."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = self.depth = 0

    @property
    def sign(self) -> str | None:
        """The sign ahead, nothing where a value or the end is."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        return token if isinstance(token, str) else None

    def next(self) -> str:
        """Steps over the sign ahead."""
        found = self.sign or ""
        self.at += 1
        return found

    def sum(self) -> Sum:
        found = self._product()
        while self.sign in ("+", "-"):
            factor = Fraction(1 if self.next() == "+" else -1)
            found = found.plus(self._product().times(factor))
        return found

    def _product(self) -> Sum:
        found = self._factor()
        while self.sign in ("*", "/"):
            found = self._multiplied(found, self.next(), self._factor())
        return found

    def _multiplied(self, left: Sum, sign: str, right: Sum) -> Sum:
        if sign == "*" and not left.unit and not left.parts:
            left, right = right, left
        if right.unit or right.parts:
            raise ConstraintError("only plain numbers multiply and divide: constraints are linear")
        if sign == "/" and right.constant == 0:
            raise ConstraintError("a division by 0")
        return left.times(right.constant if sign == "*" else 1 / right.constant)

    def _factor(self) -> Sum:
        self.depth += 1
        if self.depth > _DEPTH:
            raise ConstraintError(f"more than {_DEPTH} levels deep")
        try:
            if self.sign == "-":
                self.next()
                return self._factor().times(Fraction(-1))
            if self.sign == "(":
                return self._bracket()
            return self._value()
        finally:
            self.depth -= 1

    def _bracket(self) -> Sum:
        self.next()
        found = self.sum()
        if self.next() != ")":
            raise ConstraintError("a bracket is not closed")
        return found

    def _value(self) -> Sum:
        token = self.tokens[self.at] if self.at < len(self.tokens) else "the end"
        self.at += 1
        if isinstance(token, str):
            raise ConstraintError(
                "a value is missing before " + (token if token == "the end" else repr(token))
            )
        return token


def _tokens(text: str) -> list[Sum | str]:
    """Values, and the signs between them."""
    found: list[Sum | str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConstraintError(f"{text[at:].strip()[:20]!r} is not understood")
        found.append(match["sign"] or _read_value(match))
        at = match.end()
    return found


def _read_value(match: re.Match[str]) -> Sum:
    if match["key"] or match["word"]:
        unit = "$" if match["word"] == "cost" else "B/s"
        return Sum(unit, Fraction(0), ((match["key"] or match["word"], Fraction(1)),))
    number, unit = match["number"], match["unit"]
    if unit is None:
        return Sum("", Fraction(number))
    if unit in _MONEY:
        return Sum("$", Fraction(number) * _MONEY[unit])
    size = base(f"{number} {unit}") if unit.endswith("/s") else None
    if size is None:
        raise ConstraintError(f"{number} {unit} is neither a bandwidth nor an amount of dollars")
    return Sum("B/s", size)
