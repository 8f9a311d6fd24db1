"""Reading the options of a parallelism: defaults filled in, checked together.

Not here: the options themselves and their ranges (`parallelism.py`), whether they fit together and
the model (`checks.py`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from .. import declared, option_fields
from ..declared import Source
from ..errors import ImpossibleError, InputError, Problem
from ..model.decoder import Decoder
from . import framework_set
from .checks import combination_faults
from .frameworks import load_framework
from .parallelism import FRAMEWORK_KEYS, ContextExchange, FrameworkKeys, Parallelism

T = TypeVar("T")


def parallelism(model: Decoder, name: str, options: Mapping[str, object]) -> Parallelism:
    """The options with defaults filled in, checked against the model.

    Raises `InputError` listing every problem, such as a choice that isn't one. It is an
    `ImpossibleError` where values don't go together: degrees that don't divide what they cut, a
    product that is not `ranks`, a batch that is not whole micro-batches or is smaller than the
    pipeline."""
    given = filled_in(model, name, options)
    if found := combination_faults(model, given):
        raise ImpossibleError([_problem(name, *parts) for parts in found])
    return given


def filled_in(model: Decoder, name: str, options: Mapping[str, object]) -> Parallelism:
    """The options with defaults filled in, each in its range; whether they go together is not
    checked. Raises `InputError` listing every problem."""
    flat = dict(with_framework(framework_set.flat(name, options)))
    return _resolved(model, in_range(Parallelism, name, flat))


def in_range(options: type[T], name: str, given: Mapping[str, object]) -> T:
    """The options `given`, each of its type and within its range. Raises `InputError` listing every
    problem."""
    option_fields.read(options, name, given)
    source = Source(dict(given), name)
    found = declared.read(options, source)
    if source.problems or found is None:
        problem = _problem if issubclass(options, FrameworkKeys) else Problem
        parts = [(each.place, each.message, each.help) for each in source.problems]
        raise InputError([problem(name, *each) for each in parts])
    return found


def with_framework(options: Mapping[str, object]) -> Mapping[str, object]:
    """The options with those that their framework decides; the given ones win. Raises `InputError`
    for an unknown framework."""
    name = options.get("framework")
    return options if name is None else load_framework(str(name)).options(options)


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
