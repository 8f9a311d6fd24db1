"""Patterns of layers: lists of 0 and 1 that Megatron writes as `([0]*3+[1]*58)`.

Nothing is evaluated as Python: an expression has lists, whole numbers, `+` and `*` alone."""

from __future__ import annotations

import ast

from ..declared import Wrong

_ALLOWED = "such as 2, or ([0]*3+[1]*58)"
_MOST = 10_000
_LONGEST = 20_000
_DEEPEST = 50


def read_pattern(text: str) -> list[int]:
    """The list that an expression stands for. Raises `Wrong`."""
    bare = text.strip().strip("\"'")
    try:
        if len(bare) > _LONGEST or max(_depth(bare), bare.count("*"), bare.count("+")) > _MOST:
            raise Wrong("is longer than the layers of any model", _ALLOWED)
        tree = ast.parse(bare, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Wrong(f"{bare[:60]!r} is not a pattern of layers", _ALLOWED) from None
    found = _value(tree.body, 0)
    if isinstance(found, int):
        raise Wrong(f"{bare[:60]!r} is not a list", _ALLOWED)
    return found


def _depth(text: str) -> int:
    return text.count("[") + text.count("(")


def _value(node: ast.expr, depth: int) -> list[int] | int:
    if depth > _DEEPEST:
        raise Wrong("is nested too deeply", _ALLOWED)
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            if 0 <= number <= _MOST:
                return number
        case ast.List(elts=items):
            found = [_value(each, depth + 1) for each in items]
            if all(isinstance(each, int) for each in found):
                return [each for each in found if isinstance(each, int)]
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as sign, right=right):
            return _joined(_value(left, depth + 1), _value(right, depth + 1), sign)
    raise Wrong("has other parts than lists, whole numbers, + and *", _ALLOWED)


def _joined(left: list[int] | int, right: list[int] | int, sign: ast.operator) -> list[int] | int:
    if isinstance(sign, ast.Add) and isinstance(left, list) and isinstance(right, list):
        found = left + right
    elif isinstance(sign, ast.Mult) and isinstance(left, list) != isinstance(right, list):
        many, some = (left, right) if isinstance(left, list) else (right, left)
        assert isinstance(many, list)
        assert isinstance(some, int)
        if len(many) * some > _MOST:
            raise Wrong(f"is longer than {_MOST}", _ALLOWED)
        found = many * some
    else:
        raise Wrong("adds or multiplies what is not a list", _ALLOWED)
    if len(found) > _MOST:
        raise Wrong(f"is longer than {_MOST}", _ALLOWED)
    return found


def dense_and_distance(pattern: list[int]) -> tuple[int, int] | None:
    """Dense layers at the start, and the distance of layers with experts after them; `None` for a
    pattern that has no such form."""
    layers = len(pattern)
    mixed = [layer for layer, has in enumerate(pattern) if has]
    if not mixed:
        return None
    every = mixed[1] - mixed[0] if len(mixed) > 1 else layers - mixed[0]
    first = mixed[0] - every + 1
    return (first, every) if first >= 0 and pattern == pattern_of(layers, first, every) else None


def pattern_of(layers: int, first: int, every: int) -> list[int]:
    """1 for each layer with experts, where the first `first` layers have none, and after them each
    `every`-th has them."""
    return [int(layer >= first and (layer - first + 1) % every == 0) for layer in range(layers)]


def written(pattern: list[int]) -> str:
    """A pattern as Megatron reads it."""
    parts: list[str] = []
    start = 0
    for at in range(1, len(pattern) + 1):
        if at == len(pattern) or pattern[at] != pattern[start]:
            parts.append(f"[{pattern[start]}]*{at - start}")
            start = at
    return "(" + "+".join(parts) + ")"
