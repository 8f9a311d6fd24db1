"""Stands for classes of modules that cannot be captured, as the caller says: `CLASS=RULE`.

Here: which rules there are, and what each counts. Not here: rules that we have for classes
(`classes.py`).

- `skip`: the module gives back its first tensor.
- `linear`: each token, a row of the first tensor, meets each parameter once, so that a pass forward
  takes 2 operations for each token and parameter, and so does each gradient. The result has the
  shape of the first tensor, or with `linear:WIDTH` rows of that width.
- `experts:COUNT`: the same where a token meets `COUNT` of the module's experts. They are the first
  dimension of its parameters of three dimensions, or the members of its longest list of modules."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as trees

from ..errors import InputError, Problem
from . import fused
from .fused import FusedKernel, Log
from .records import Product

RULES = "skip, linear, linear:WIDTH, experts:COUNT"
"""The rules as they are written."""

Treat = Mapping[str, str] | Sequence[str] | str
"""Rules by class: a mapping, or `CLASS=RULE`, several of them separated by commas."""


def treat(module: torch.nn.Module, given: Treat, log: Log, place: str) -> None:
    """Puts stands in place of `forward` of modules. Raises `InputError` for a class that the module
    does not have, or a rule that there is not."""
    found: dict[str, list[torch.nn.Module]] = {}
    for each in module.modules():
        found.setdefault(type(each).__name__, []).append(each)
    problems = []
    for name, rule in as_pairs(given):
        stand = _stand(rule, log)
        if name not in found:
            near = ", ".join(difflib.get_close_matches(name, found, n=5, cutoff=0.4))
            said = f"no module is of the class {name!r}"
            problems.append(Problem(place, "treat", said, near or ", ".join(sorted(found)[:8])))
        elif stand is None:
            problems.append(Problem(place, "treat", f"unknown rule {rule!r} of {name}", RULES))
        else:
            for each in found[name]:
                each.forward = types.MethodType(stand, each)
    if problems:
        raise InputError(problems)


def as_pairs(given: Treat) -> list[tuple[str, str]]:
    """Classes and their rules, in order."""
    if isinstance(given, Mapping):
        return sorted((str(name), str(rule)) for name, rule in given.items())
    listed = given.split(",") if isinstance(given, str) else given
    pairs = (str(each).partition("=") for each in listed if str(each).strip())
    return sorted((name.strip(), rule.strip()) for name, _, rule in pairs)


def _stand(rule: str, log: Log) -> Callable[..., Any] | None:
    """The function that a rule puts in place of `forward`; None for an unknown rule."""
    name, _, number = rule.partition(":")
    if rule == "skip":
        return lambda module, *args, **kwargs: _first(module, args, kwargs)
    if number and not (number.isascii() and number.isdigit() and 0 < int(number) < 2**24):
        return None
    if rule == "linear" or (name == "linear" and number):
        return lambda module, *args, **kwargs: _meet(
            module, _first(module, args, kwargs), log, width=int(number or 0)
        )
    if name == "experts" and number:
        return lambda module, *args, **kwargs: _meet(
            module, _first(module, args, kwargs), log, experts=int(number)
        )
    return None


def _first(module: torch.nn.Module, args: Any, kwargs: Any) -> torch.Tensor:
    for each in trees.tree_leaves((args, kwargs)):
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            return each
    said = f"{type(module).__name__} gets no tensor of floating-point numbers"
    raise InputError([Problem("", "treat", said, "the class of a module that does")])


def _meet(
    module: torch.nn.Module, given: torch.Tensor, log: Log, width: int = 0, experts: int = 0
) -> torch.Tensor:
    """One product of all rows with all parameters that a row meets."""
    parameters = list(module.parameters())
    rows, inner = given.numel() // given.shape[-1], given.shape[-1]
    count = sum(each.numel() for each in parameters)
    if not count:
        said = f"{type(module).__name__} has no parameters"
        raise InputError([Problem("", "treat", said, "the rule skip")])
    if experts:
        count = count * experts // _experts(module, experts)
    product = Product(rows, -(-count // inner), inner)
    gradients = given.requires_grad + any(each.requires_grad for each in parameters)
    shape = (*given.shape[:-1], width or inner)
    kernel = FusedKernel(
        "treated",
        "matmul",
        product.flops,
        gradients * product.flops,
        ((shape, given.dtype),),
        product=product,
    )
    return fused.run(kernel, log, [given, *parameters])[0]


def _experts(module: torch.nn.Module, asked: int) -> int:
    """The number of experts in a module."""
    lists = [len(each) for each in module.modules() if isinstance(each, torch.nn.ModuleList)]
    stacked = [each.shape[0] for each in module.parameters() if each.dim() == 3]
    found = max(stacked or lists, default=0)
    if found < asked:
        said = f"{asked} of {found} experts in {type(module).__name__}"
        raise InputError([Problem("", "treat", said, f"1 to {found}, or the rule linear")])
    return found
