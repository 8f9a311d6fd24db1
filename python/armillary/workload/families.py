"""From a model's name to its workload: which family builds it, with which options."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from itertools import pairwise

from ..errors import InputError, Problem
from ..model.files import Model, load_model
from . import option_help
from .parallelism import Parallelism
from .workload import Workload

Builder = Callable[..., Workload]
_DECODERS = ("transformer", "moe")
"""Families whose memory is known without making the workload."""


def builder(family: str) -> Builder:
    """The function of that name that builds workloads of `family`."""
    module = importlib.import_module(f".{family}", __package__)
    function: Builder = getattr(module, family)
    return function


def options(family: str) -> Mapping[str, inspect.Parameter]:
    """What a family can be told, by name."""
    parameters = inspect.signature(builder(family), eval_str=True).parameters
    return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def explanations(family: str) -> Mapping[str, str]:
    """What options mean: as the docstrings of `Parallelism`'s fields say it, or as `option_help`
    does."""
    if not set(options(family)) <= {field.name for field in dataclasses.fields(Parallelism)}:
        return option_help.OPTIONS.get(family, {})
    (described,) = ast.parse(inspect.getsource(Parallelism)).body
    texts = {}
    for before, after in pairwise(getattr(described, "body", [])):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
        ):
            texts[before.target.id] = " ".join(str(ast.literal_eval(after.value)).split()).replace(
                "`", ""
            )
    return texts


def build(model: str | os.PathLike[str] | Model, **chosen: object) -> Workload:
    """The workload of a preset, model file or Hugging Face `config.json`: `build("gpt3-175b",
    tp=16, dp=64)`.

    The options are those of the model's family (`transformer`, `moe`, `dlrm`, `cnn`).
    Raises `InputError` listing every problem.
    """
    found = _known(model, chosen)
    made = builder(found.family)(found, **chosen)
    return made if isinstance(model, Model) else made.made_of(os.fspath(model), chosen)


def needed_memory(model: str | os.PathLike[str] | Model, **chosen: object) -> int | None:
    """Bytes of the NPU that needs most memory at its peak: what the summary of `build` with these
    options says, in a few milliseconds for a decoder. Nothing where it doesn't say. Raises
    `InputError` listing every problem."""
    found = _known(model, chosen)
    if found.family in _DECODERS:
        from .transformer import footprints

        return max(memory.total for memory in footprints(found, **chosen))  # type: ignore[arg-type]
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
    near = difflib.get_close_matches(name, known, n=3)
    help_ = ", ".join(near or known)
    return Problem(model.name, name, f"is no option of a {model.family}", help_)
