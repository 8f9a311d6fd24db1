"""Command lines of engines in our words, and the parts that the engines' readers share."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import InputError
from ..launch.given import Given
from .deployment import Choices
from .layout import Layout, Precision

MOST_DRAFTS = 64
NO_FORMAT = "the command does not say the format of the weights: the checkpoint has it"


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A deployment that a command line starts."""

    engine: str
    """Name of the engine: vllm, sglang or trtllm."""
    model: str
    """The model as the command names it: a name at Hugging Face, or a path."""
    experts_layout: Layout
    """GPUs of an engine where the model has experts."""
    dense_layout: Layout
    """The same where it has none."""
    experts_replicas: int
    """Engines where the model has experts."""
    dense_replicas: int
    """The same where it has none."""
    weights: str | None
    """Format of dense layers; `None` where the checkpoint decides."""
    experts: str | None
    """Format of experts."""
    cache: str | None
    """Format of keys and values; `None` for the engine's choice."""
    choices: Choices
    notes: tuple[str, ...]
    """Assumptions, and flags that take or save time without a model."""
    idle: Mapping[str, str]
    """Flags that change no time, and why."""

    def spread(self, has_experts: bool) -> tuple[Layout, int]:
        """The layout of an engine, and how many engines there are."""
        if has_experts:
            return self.experts_layout, self.experts_replicas
        return self.dense_layout, self.dense_replicas

    def precision(self, otherwise: Precision | None = None) -> Precision:
        """The number formats, with those of `otherwise` where the command does not say them."""
        otherwise = otherwise or Precision()
        dense = self.weights or otherwise.weights
        experts = self.experts or self.weights or otherwise.experts
        return Precision(dense, experts, self.cache or otherwise.cache)


@dataclass(slots=True)
class Spread:
    """GPUs that a command asks for, as it counts them."""

    experts: Layout
    dense: Layout
    replicas: int = 1
    """Engines of a model with experts."""
    dense_replicas: int = 1


Formats = tuple[str | None, str | None]
"""Formats of dense layers and of experts."""


def formats(given: Given, key: str, known: Mapping[str, Formats]) -> Formats:
    """Formats of weights that a method of quantization stands for."""
    if not given.has(key):
        given.note(NO_FORMAT)
        return None, None
    value = given.text(key)
    if value is None:
        return None, None
    found = known.get(value.lower())
    if found is None:
        message = f"{value!r} does not say the format of the weights"
        allowed = f"{', '.join(sorted(known))}; or without it, and --weights FORMAT"
        given.fault(key, message, allowed)
        return None, None
    return found


def cache(given: Given, key: str, known: Mapping[str, str | None]) -> str | None:
    """Format of keys and values."""
    value = given.text(key)
    if value is None:
        return None
    if value.lower() not in known:
        given.fault(key, f"unknown format {value!r}", ", ".join(sorted(known)))
        return None
    return known[value.lower()]


def drafts(given: Given, key: str) -> int:
    """Tokens that are drafted; 0 without them."""
    found = given.count(key) or 0
    if found > MOST_DRAFTS:
        given.fault(key, f"{found} drafted tokens", f"at most {MOST_DRAFTS}")
    elif found:
        given.note("the command does not say how many drafts are right: give --acceptance")
    return found


def model(given: Given, key: str, allowed: str) -> str | None:
    """The name of the model, which every command has."""
    if not given.has(key):
        given.fault(key, "is missing", allowed)
        return None
    found = given.text(key)
    if found == "":
        given.fault(key, "is empty", allowed)
    return found or None


def fraction(given: Given, key: str) -> float | None:
    """A part of the memory, above 0 and at most 1."""
    found = given.number(key)
    if found is not None and not 0.01 <= found <= 1:
        given.fault(key, f"{found:g} is not a part of the memory", "0.01 to 1")
        return None
    return found


def only(given: Given, values: Mapping[str, tuple[tuple[str, ...], str]]) -> None:
    """Refuses keys with other values than those that change nothing, each with the reason."""
    for key, (plain, why) in values.items():
        value = given.value(key)
        if value is not None and str(value).lower() not in plain:
            given.fault(key, f"{value!r}: {why}", " or ".join(plain) + ", or without it")


def finished(
    engine: str,
    given: Given,
    idle: Mapping[str, str],
    switches: Mapping[str, str],
    model: str | None,
    spread: Spread,
    of: Formats,
    keys: str | None,
    choices: Choices,
) -> EngineCommand:
    """The command. Raises `InputError` with every problem."""
    known = {*idle, *switches, *given.asked}
    for key in given.keys:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=3)
            near = ", ".join(map(given.name_of, close)) or f"a flag of {engine}"
            given.fault(key, "unknown flag", f"{near}; or without it, if it costs no time")
            given.asked.add(key)
    left = given.finish(idle, switches)
    if model is None:  # A model that is missing is a problem.
        raise InputError(given.problems)
    return EngineCommand(
        engine, model, spread.experts, spread.dense, spread.replicas, spread.dense_replicas,
        of[0], of[1], keys, choices, tuple(given.notes), left,
    )  # fmt: skip
