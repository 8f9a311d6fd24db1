"""Texts that options give: layouts, promises to users, rates of acceptance."""

from __future__ import annotations

import dataclasses
import re

from ..errors import InputError, Problem
from ..units import base
from .layout import Layout
from .limits import Limits


def limits(text: str | None) -> Limits:
    """Promises such as `ttft=1s,tpot=30ms`.

    Raises:
        InputError: another text.
    """
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.strip().partition("=")
        seconds = base(value.strip())
        known = name in ("ttft", "tpot") and name not in found
        if not known or seconds is None or not value.strip().endswith("s") or seconds <= 0:
            raise InputError(
                [Problem("", "--slo", f"invalid promise: {part.strip()!r}", "ttft=1s,tpot=30ms")]
            )
        found[name] = float(seconds)
    return Limits(**found)


def pool(text: str, option: str) -> tuple[Layout, int]:
    """A layout and a number of engines, such as `tp=4,replicas=2`.

    Raises:
        InputError: another text.
    """
    names = [each.name for each in dataclasses.fields(Layout)]
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if (
            name not in (*names, "replicas")
            or name in found
            or not re.fullmatch(r"\s*[0-9]{1,9}\s*", value)
        ):
            help_ = f"{', '.join(names)} and replicas, such as tp=4,replicas=2"
            raise InputError([Problem("", option, f"invalid layout: {part.strip()!r}", help_)])
        found[name] = int(value)
    count = found.pop("replicas", 1)
    if count < 1:
        raise InputError([Problem("", option, "invalid count of replicas: 0", "a count from 1")])
    return Layout(**found), count


def acceptance(text: str | None, drafts: int) -> tuple[float, ...]:
    """Probabilities that drafts are right, by place: `0.8` for all, or one for each.

    Raises:
        InputError: other numbers, or a wrong number of them.
    """
    if drafts == 0:
        if text is not None:
            message = "no tokens are drafted"
            raise InputError([Problem("", "--acceptance", message, "--draft-tokens N")])
        return ()
    if text is None:
        message = "the share of right drafts is not known"
        raise InputError([Problem("", "--acceptance", message, "0.8, or a share for each place")])
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) == 1:
        shares *= drafts
    if len(shares) != drafts or not all(0 <= share <= 1 for share in shares):
        help_ = f"one share from 0 to 1, or {drafts}"
        raise InputError([Problem("", "--acceptance", f"invalid shares: {text!r}", help_)])
    return shares
