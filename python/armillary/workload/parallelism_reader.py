"""Reading the options of a parallelism: the range of each, defaults filled in, checked together.

Not here: the options themselves (`parallelism.py`), whether they fit together and the model
(`checks.py`)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import get_args

from ..errors import ImpossibleError, InputError, Problem
from ..model.decoder import Decoder
from ..option_fields import read, types
from . import buckets, framework_set
from .checks import Fault, combination_faults
from .frameworks import load_framework
from .parallelism import FRAMEWORK_KEYS, ContextExchange, Parallelism


def parallelism(model: Decoder, name: str, options: Mapping[str, object]) -> Parallelism:
    """The options with defaults filled in, checked against the model.

    Raises `InputError` listing every problem, such as a choice that isn't one. It is an
    `ImpossibleError` where values don't go together: degrees that don't divide what they cut, a
    product that is not `ranks`, a batch that is not whole micro-batches or is smaller than the
    pipeline."""
    given = read(Parallelism, name, _joined(with_framework(framework_set.flat(name, options))))
    problems = [_problem(name, *parts) for parts in _kinds(given)]
    if problems:
        raise InputError(problems)
    given = _resolved(model, given)
    if found := combination_faults(model, given):
        raise ImpossibleError([_problem(name, *parts) for parts in found])
    return given


def with_framework(options: Mapping[str, object]) -> Mapping[str, object]:
    """The options with those that their framework decides; the given ones win. Raises `InputError`
    for an unknown framework."""
    name = options.get("framework")
    return options if name is None else load_framework(str(name)).options(options)


def _joined(options: Mapping[str, object]) -> dict[str, object]:
    """Lists as the text that says the same."""
    found = dict(options)
    for key in ("layers_per_stage", "recompute_modules"):
        value = found.get(key)
        if isinstance(value, (list, tuple)):
            found[key] = ",".join(map(str, value))
    if isinstance(found.get("recompute_modules"), str):
        found["recompute_modules"] = ",".join(
            part.strip() for part in str(found["recompute_modules"]).split(",")
        )
    return found


def _problem(name: str, option: str, message: str, allowed: str) -> Problem:
    key = f"{framework_set.OPTION}.{option}" if option in FRAMEWORK_KEYS else option
    return Problem(name, key, message, allowed)


def _resolved(model: Decoder, given: Parallelism) -> Parallelism:
    """Fills in what was not given."""
    waves = 1 if given.pp == 1 else 4 * given.pp
    batch = (
        given.global_batch
        if given.global_batch is not None
        else given.micro_batch * given.dp * waves
    )
    interleaved = given.schedule == "1f1b" and given.virtual_stages > 1
    exchange: ContextExchange | None = given.cp_comm_type
    if given.cp > 1 and exchange is None:
        exchange = "p2p" if given.attention == "flash" else "all_gather"
    return dataclasses.replace(
        given,
        cp_comm_type=exchange,
        global_batch=batch,
        seq=given.seq if given.seq is not None else model.sequence,
        sp=given.sp if given.sp is not None else bool(model.experts) and given.tp > 1,
        schedule="interleaved" if interleaved else given.schedule,
    )


_CHOICES: dict[str, tuple[object, ...]] = {"zero": (0, 1, 2, 3)}
"""Options of few numbers."""
_RANGES: dict[str, tuple[float, float, str]] = {
    "bucket_mb": (buckets.LEAST, buckets.MOST, buckets.ALLOWED),
    "unflatten_us": (0.0, 1e6, "microseconds from 0 to 1000000"),
    "capacity_factor": (math.ulp(0.0), 1e6, "a number above 0, up to 1000000"),
    "imbalance": (1.0, 1e6, "a number from 1 to 1000000"),
}
"""Least and most of options that need not be whole, and the words for it."""


_WORDS = {str: ("a text nor a list", "values and commas"), bool: ("on nor off", "true or false")}
"""Words for values of other types, and the allowed ones."""
_LEAST = {"mtp": 0, "loss_metrics": 0}
"""Least value of counts that may be 0."""


def _kinds(given: Parallelism) -> list[Fault]:
    """Values that are out of range whatever the model."""
    found = (
        (key, _unfit(key, hint, getattr(given, key)))
        for key, hint in types(Parallelism).items()
        if key != framework_set.OPTION
    )
    return [(key, *fault) for key, fault in found if fault]


def _unfit(key: str, hint: object, value: object) -> tuple[str, str] | None:
    """Fault of an option's value, and the allowed ones, by its type."""
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if value is None and len(kinds) > 1:
        return None
    if key in _RANGES:
        least, most, words = _RANGES[key]
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and least <= value <= most
        ):
            return None
        return f"{value!r} is out of range", words
    if kinds[0] in _WORDS:
        return (
            None
            if isinstance(value, kinds[0])
            else (f"{value!r} is neither {_WORDS[kinds[0]][0]}", _WORDS[kinds[0]][1])
        )
    if choices := _CHOICES.get(key) or get_args(kinds[0]):
        return (
            None
            if value in choices
            else (f"{value!r} is not one of them", ", ".join(map(str, choices)))
        )
    least = _LEAST.get(key, 1)
    whole = isinstance(value, int) and not isinstance(value, bool) and least <= value <= 2**24
    return (
        None
        if whole
        else (f"invalid count: {value!r}", f"a whole number from {least} to 16,777,216")
    )
