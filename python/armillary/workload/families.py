"""Workloads of models by name: the family that builds each, and its options."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Mapping

from ..errors import InputError, Problem
from ..model.files import Model, load_model
from ..model.sharding_plan import ShardingPlan
from ..option_fields import groups, meanings, near
from .workload import Workload

Builder = Callable[..., Workload]
DECODERS = ("transformer", "moe")
"""Families whose memory is known without making the workload."""

DESCRIPTIONS: Mapping[str, str] = {
    "transformer": "One training step of a dense decoder. Ranks: tp x cp x dp x pp, tp fastest.",
    "moe": "One training step of a mixture of experts. Ranks: tp x cp x dp x pp, tp fastest; ep "
    "divides cp x dp.",
    "dlrm": "Iterations of a recommendation model on dp NPUs. Widths are bytes of an element.",
    "cnn": "Data-parallel iterations of a convolutional network on dp NPUs. Widths are bytes of an "
    "element.",
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


def explanations(family: str) -> Mapping[str, str]:
    """Meanings of the options of a family."""
    return meanings(_declared(family))


def option_groups(family: str) -> Mapping[str, list[str]]:
    """The names of the options of a family by group."""
    return groups(_declared(family))


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
    found = _known(model, chosen)
    made = builder(found.family)(found, **chosen)
    in_memory = any(isinstance(each, ShardingPlan) for each in chosen.values())
    return made if isinstance(model, Model) or in_memory else made.made_of(os.fspath(model), chosen)


def needed_memory(model: str | os.PathLike[str] | Model, **chosen: object) -> int | None:
    """Bytes of the NPU that needs most memory at its peak: what the summary of `build` with these
    options says, in a few milliseconds for a decoder. Nothing where it doesn't say. Raises
    `InputError` listing every problem."""
    found = _known(model, chosen)
    if found.family in DECODERS:
        from .transformer import footprints

        return max(memory.total for memory in footprints(found, **chosen))
    summary = builder(found.family)(found, **chosen).summary
    return None if summary is None else summary.memory or None


def _known(model: str | os.PathLike[str] | Model, chosen: Mapping[str, object]) -> Model:
    """The model, once its family has all the options `chosen`."""
    found = load_model(model)
    known = options(found.family)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise InputError([_unknown(name, found, list(known)) for name in unknown])
    return found


def _unknown(name: str, model: Model, known: list[str]) -> Problem:
    return Problem(model.name, name, f"unknown option of a {model.family}", near(name, known))
