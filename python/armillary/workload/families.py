"""Workloads of models by name: the family that builds each, and its options."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from collections.abc import Callable, Mapping

from .. import old_words
from ..errors import InputError, Problem
from ..model.files import Model, load_model
from ..option_fields import Written, groups, meanings, near, written
from .workload import Workload

Builder = Callable[..., Workload]
DECODERS = ("transformer", "moe")
"""Families whose memory is known without making the workload."""

DESCRIPTIONS: Mapping[str, str] = {
    "transformer": "One training step of a dense decoder. Ranks: tp x cp x dp x pp, tp fastest.",
    "moe": "One training step of a mixture of experts. Ranks: tp x cp x dp x pp, tp fastest; ep "
    "divides cp x dp.",
    "dlrm": "Iterations of a recommendation model on dp NPUs.",
    "cnn": "Data-parallel iterations of a convolutional network on dp NPUs.",
    "captured": "One training step of a model captured from PyTorch. Ranks: tp x cp x dp x pp, "
    "tp fastest.",
    "layerwise": "Iterations of a list of layers with recorded times. Ranks: inner-dp x mp x dp / "
    "inner-dp.",
}
"""Workload that each family builds."""


def builder(family: str) -> Builder:
    """The function of that name that builds workloads of `family`."""
    module = importlib.import_module(f".{family}", __package__)
    function: Builder = getattr(module, family)
    return function


def options(family: str) -> Mapping[str, inspect.Parameter]:
    """The options of a family, by name."""
    parameters = inspect.signature(builder(family), eval_str=True).parameters
    return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def settable(family: str) -> list[str]:
    """Names that an option of a family may have in a file: those of today, the keys of
    `framework_set` below it, and old ones."""
    from .parallelism import FRAMEWORK_KEYS

    names = list(options(family))
    keys = FRAMEWORK_KEYS if family in DECODERS else ()
    return [*names, *(f"framework_set.{key}" for key in keys), *old_words.of("model", family)]


def explanations(family: str) -> Mapping[str, str]:
    """Meanings of the options of a family."""
    return meanings(_declared(family))


def forms(family: str) -> Mapping[str, Written]:
    """The options of a family as they are written on a command line."""
    return written(_declared(family))


def option_groups(family: str) -> Mapping[str, list[str]]:
    """The names of the options of a family by group."""
    known = options(family)
    kept = {
        title: [name for name in names if name in known]
        for title, names in groups(_declared(family)).items()
    }
    return {title: names for title, names in kept.items() if names}


def _declared(family: str) -> type:
    declared: type = builder(family).__options__  # type: ignore[attr-defined]
    return declared


def build(model: str | os.PathLike[str] | Model, **chosen: object) -> Workload:
    """The workload of a preset, model file or Hugging Face `config.json`: `build("gpt3-175b",
    tp=16, dp=64)`.

    The options are those of the model's family (`transformer`, `moe`, `dlrm`, `cnn`).
    Reports say how to repeat the run, unless a model or a sharding plan was made in memory.
    Raises `InputError` listing every problem.
    """
    found, current, old = _known(model, chosen)
    old_words.warn(old)
    found = dataclasses.replace(found, notes=(*found.notes, *old)) if old else found
    made = builder(found.family)(found, **current)
    plan = current.get("plan")
    in_memory = plan is not None and not isinstance(plan, (str, os.PathLike))
    return (
        made if isinstance(model, Model) or in_memory else made.made_of(os.fspath(model), current)
    )


def needed_memory(model: str | os.PathLike[str] | Model, **chosen: object) -> int | None:
    """Bytes of the NPU that needs most memory at its peak: what the summary of `build` with these
    options says, in a few milliseconds for a decoder. Nothing where it doesn't say. Raises
    `InputError` listing every problem."""
    found, current, _ = _known(model, chosen)
    if found.family in DECODERS:
        from .transformer import footprints

        return max(memory.total for memory in footprints(found, **current))
    summary = builder(found.family)(found, **current).summary
    return None if summary is None else summary.memory or None


def _known(
    model: str | os.PathLike[str] | Model, chosen: Mapping[str, object]
) -> tuple[Model, dict[str, object], list[str]]:
    """The model, once its family has all the options `chosen`; these in words of today; and
    warnings of old ones."""
    found = load_model(model)
    known = options(found.family)
    current, old = old_words.options(found.family, chosen)
    unknown = [name for name in current if name not in known]
    if unknown:
        raise InputError([_unknown(name, found, list(known)) for name in unknown])
    return found, current, old


def _unknown(name: str, model: Model, known: list[str]) -> Problem:
    return Problem(model.name, name, f"unknown option of a {model.family}", near(name, known))
