"""Times, laws and recorded gaps as users write them."""

from __future__ import annotations

import math
import re
from typing import Literal

from .. import documents
from ..errors import InputError, Problem
from .job import DAY_S

Law = Literal["exponential", "weibull", "gamma", "recorded"]
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": DAY_S, "y": 365.25 * DAY_S}
_TIME = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,3})?)\s*([a-z]+)?")
TIMES = "a number with ms, s, min, h, d or y, such as 90s, 5min or 238d"
_LAWS = "exponential, weibull:SHAPE such as weibull:0.7, or gamma:VARIATION such as gamma:1.76"
_MOST = 1_000_000
"""Recorded gaps of a file."""


def seconds(text: str, option: str) -> float:
    """A time. Raises `InputError`."""
    found = _parsed(text)
    if found is None:
        raise InputError([Problem("", option, f'invalid time: "{text[:60]}"', TIMES)])
    return found


def _parsed(text: str) -> float | None:
    match = _TIME.fullmatch(text.strip())
    if match is None or (match[2] or "s") not in _UNITS:
        return None
    found = float(match[1]) * _UNITS[match[2] or "s"]
    return found if math.isfinite(found) else None


def law(text: str) -> tuple[Law, float]:
    """A law of the time between failures, and its shape. Raises `InputError`."""
    name, colon, shape = text.strip().partition(":")
    number = re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,9})?", shape)
    if name == "exponential" and not colon:
        return "exponential", 1.0
    if name == "weibull" and number:
        return "weibull", float(shape)
    if name == "gamma" and number:
        return "gamma", float(shape)
    raise InputError([Problem("", "--law", f'invalid law: "{text[:60]}"', _LAWS)])


def gaps(file: str) -> tuple[float, ...]:
    """Times between failures, one a line; lines of `#` and an unnumbered first line are left out.
    Raises `InputError` naming each bad line."""
    allowed = f"a time a line: {TIMES}"
    try:
        text = documents.read_bytes(file, allowed).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError([Problem(file, "", "is not text in UTF-8", allowed)]) from None
    found: list[float] = []
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#") or (number == 1 and word[0].isalpha()):
            continue
        gap = _parsed(word)
        if gap is None:
            said = f'invalid time: "{word[:60]}"'
            problems.append(Problem(file, f"line {number}", said, allowed))
        else:
            found.append(gap)
    if not problems and not 2 <= len(found) <= _MOST:
        said = f"has {len(found):,} gaps"
        problems.append(Problem(file, "", said, f"2 to {_MOST:,}"))
    if problems:
        raise InputError(problems[:20])
    return tuple(found)
