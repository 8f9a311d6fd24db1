"""Constraints: `tp * pp * dp == 1024`. Names, numbers, texts, arithmetic, comparisons, `and`, `or`,
`not`, min, max, abs.

Here: a small language, read with `ast` and turned into functions; nothing is handed to Python's own
evaluation. A name is a parameter or a fixed value of the study. A text with a unit counts as its
number in base units: `platform.links[1].bandwidth >= "50 GB/s"` compares bytes a second. Sizes are
bounded: nothing runs away."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from ..units import base

Scope = Mapping[str, Any]
Number = int | Fraction
Evaluate = Callable[[Scope], Any]
T = TypeVar("T")

ALLOWED = (
    "names, numbers, texts, + - * / // % **, == != < <= > >=, in [...], and, or, not, min, max, abs"
)
_BITS = 4096
_LENGTH = 1000


class ExpressionError(ValueError):
    """Not in the language, or without a value."""


@dataclass(frozen=True)
class Expression:
    """A constraint as written, the names in it, and what computes it."""

    text: str
    names: tuple[str, ...]
    evaluate: Evaluate

    def holds(self, scope: Scope) -> bool:
        """Whether it is true. Raises `ExpressionError` when it has no value: divided by zero, a
        text times a number."""
        try:
            return bool(self.evaluate(scope))
        except (TypeError, ArithmeticError, ValueError) as error:
            raise ExpressionError(str(error)) from None


def compile_expression(text: str) -> Expression:
    """Raises `ExpressionError` saying what is not in the language."""
    if len(text) > _LENGTH:
        raise ExpressionError(f"has {len(text)} characters, more than {_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return Expression(text, tuple(dict.fromkeys(_names(tree))), _compile(tree))
    except ExpressionError:
        raise
    except SyntaxError as error:
        raise ExpressionError(f"is not an expression: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise ExpressionError("is nested too deeply") from None
    except ValueError:  # characters that Python can't read
        raise ExpressionError(
            "is not an expression: it holds characters that no text has"
        ) from None


def value(raw: object) -> object:
    """A parameter's value as expressions see it: exact numbers, quantities in base units, other
    texts as they are."""
    if isinstance(raw, float) and math.isfinite(raw):
        return Fraction(raw).limit_denominator(10**15)
    if isinstance(raw, str):
        found = base(raw)
        return raw if found is None else found
    return raw


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        yield _path(node)
    elif isinstance(node, ast.Call):
        for argument in node.args:
            yield from _names(argument)
    else:
        for inner in ast.iter_child_nodes(node):
            yield from _names(inner)


def _path(node: ast.AST) -> str:
    """`platform.links[1].bandwidth` as it is written in a study."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_path(node.value)}.{node.attr}"
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
    ):
        return f"{_path(node.value)}[{node.slice.value}]"
    raise _refused(node)


def _refused(node: ast.AST) -> ExpressionError:
    try:
        shown = ast.unparse(node)
    except (ValueError, AttributeError):
        shown = type(node).__name__
    return ExpressionError(f"`{shown}` is not understood")


def _bounded(result: T) -> T:
    """The result unless it grows beyond all use."""
    parts = (result.numerator, result.denominator) if isinstance(result, int | Fraction) else ()
    if any(part.bit_length() > _BITS for part in parts):
        raise ExpressionError("a number in it is too large")
    return result


def _numbers(apply: Callable[[Number, Number], Number]) -> Callable[[object, object], Number]:
    def checked(left: object, right: object) -> Number:
        return _bounded(apply(_number(left), _number(right)))

    return checked


def _number(side: object) -> Number:
    if not isinstance(side, int | Fraction):
        raise ExpressionError(f"{side!r} is not a number")
    return side


def _power(left: Number, right: Number) -> Number:
    if right != int(right) or not -64 <= right <= 64:
        raise ExpressionError(f"the power {right} is not a whole number up to 64")
    return Fraction(left) ** int(right)


def _divide(left: Number, right: Number) -> Number:
    if right == 0:
        raise ExpressionError("divides by zero")
    return Fraction(left) / right


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _numbers(operator.add),
    ast.Sub: _numbers(operator.sub),
    ast.Mult: _numbers(operator.mul),
    ast.Div: _numbers(_divide),
    ast.FloorDiv: _numbers(lambda left, right: _divide(left, right).__floor__()),
    ast.Mod: _numbers(lambda left, right: left - right * _divide(left, right).__floor__()),
    ast.Pow: _numbers(_power),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


def _compile(node: ast.AST) -> Evaluate:  # noqa: PLR0911 - one arm a kind of node
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        constant = _bounded(value(node.value))
        if isinstance(constant, float):
            raise ExpressionError("a number in it is too large")
        return lambda scope: constant
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        name = _path(node)
        return lambda scope: scope[name]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _binary(_BINARY[type(node.op)], _compile(node.left), _compile(node.right))
    if isinstance(node, ast.UnaryOp):
        return _unary(node)
    if isinstance(node, ast.BoolOp):
        return _junction(isinstance(node.op, ast.And), [_compile(each) for each in node.values])
    if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
        return _comparison(
            [_COMPARE[type(op)] for op in node.ops],
            [_compile(n) for n in (node.left, *node.comparators)],
        )
    if isinstance(node, ast.List | ast.Tuple):
        items = [_compile(each) for each in node.elts]
        return lambda scope: [item(scope) for item in items]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _CALLS
        and not node.keywords
    ):
        apply, arguments = _CALLS[node.func.id], [_compile(each) for each in node.args]
        return lambda scope: apply(*(argument(scope) for argument in arguments))
    raise _refused(node)


def _binary(apply: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: apply(left(scope), right(scope))


def _unary(node: ast.UnaryOp) -> Evaluate:
    inner = _compile(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda scope: not inner(scope)
    if isinstance(node.op, ast.USub):
        return lambda scope: -inner(scope)
    raise _refused(node)


def _junction(every: bool, parts: list[Evaluate]) -> Evaluate:
    decide = all if every else any
    return lambda scope: decide(part(scope) for part in parts)


def _comparison(tests: list[Callable[[Any, Any], bool]], sides: list[Evaluate]) -> Evaluate:
    def compare(scope: Scope) -> bool:
        values = [side(scope) for side in sides]
        return all(
            test(left, right) for test, left, right in zip(tests, values, values[1:], strict=False)
        )

    return compare
