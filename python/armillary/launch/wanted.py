"""A layout to be written for a framework, and what the framework can't say of it.

Here: the model and the options, filled in and checked; options that a framework refuses. Not here:
the flags of a framework (`megatron_export.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..model.decoder_reader import decoder
from ..model.files import DECODERS, Model, load_model
from ..old_words import options as of_today
from ..workload.decoder_plan import laid_out
from ..workload.framework_set import flat
from ..workload.frameworks import load_framework
from ..workload.parallelism import FRAMEWORK_KEYS, Parallelism
from ..workload.parallelism_reader import parallelism
from ..workload.placement import Layout
from ..workload.setting import Setting

OF_DATA = ("imbalance",)
"""Options that describe data, not a layout."""


@dataclass
class Wanted:
    """A layout that a framework is to run."""

    model: Model
    shape: Decoder
    par: Parallelism
    given: Mapping[str, object]
    """Options that the caller gave, keys of `framework_set` among them."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        """Layers of each part of the pipeline."""
        return laid_out(Setting(self.shape, self.par))

    def refuse(self, option: str, said: object, allowed: str) -> None:
        """Keeps an option that the framework can't express."""
        text = "on" if said is True else "off" if said is False else said
        self.problems.append(Problem(self.model.name, option, f"{text}", allowed))

    def only(self, framework: str, allowed: Mapping[str, tuple[object, ...]]) -> None:
        """Refuses options with other values than the allowed ones."""
        for option, values in allowed.items():
            value = getattr(self.par, option)
            if value not in values:
                words = ", ".join(_word(each) for each in values)
                self.refuse(option, f"{_word(value)}, which {framework} has no setting for", words)

    def behaves(self, framework: str, description: str, settable: Iterable[str]) -> None:
        """Refuses given keys of behaviour that no setting changes and the framework's description
        (or its default) has otherwise."""
        known = load_framework(description).options({})
        for key in FRAMEWORK_KEYS:
            if key in settable or key not in self.given:
                continue
            usual = known.get(key, Parallelism.__dataclass_fields__[key].default)
            if self.given[key] != usual:
                said = f"{_word(self.given[key])}, which {framework} has no setting for"
                self.refuse(f"framework_set.{key}", said, _word(usual))
        named = self.given.get("framework")
        if named not in (None, description) and not str(named).startswith(description):
            self.refuse("framework", f"{named}, but the launch is of {framework}", description)

    def finish(self) -> None:
        """Raises `InputError` with every option that the framework can't express."""
        if self.problems:
            raise InputError(self.problems)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)


def ranks_of_a_node(world: int) -> int:
    """Ranks of a node where nothing says it: the largest divisor of all ranks up to 8."""
    return next(ranks for ranks in range(8, 0, -1) if world % ranks == 0)


def wanted(model: str | os.PathLike[str] | Model, options: Mapping[str, object]) -> Wanted:
    """The layout that the options describe, checked against the model. Raises `InputError`."""
    found = load_model(model)
    if found.family not in DECODERS:
        said = f"a model of the family {found.family!r}"
        raise InputError([found.problem("family", said, f"a model of {' or '.join(DECODERS)}")])
    current, _ = of_today(found.family, options)
    shape = decoder(found)
    par = parallelism(shape, found.name, current)
    return Wanted(found, shape, par, flat(found.name, current))
