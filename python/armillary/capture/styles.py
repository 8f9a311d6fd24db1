"""Plans of PyTorch's `parallelize_module`, as torchtitan's models apply them.

Here: from a function that divides a module over a mesh to a plan with words. Nothing is divided:
calls of `parallelize_module` are noted, and the mesh has one rank. Not here: words
(`plans.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from ..errors import InputError, Problem

_IDLE = {
    "NoParallel",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "SequenceParallel",
}
"""Names of styles that divide no parameter."""


class _Mesh:
    """A mesh of one rank, for functions that ask for one."""

    ndim = 1
    device_type = "meta"
    mesh_dim_names = ("tp",)

    def size(self, dim: int | None = None) -> int:
        """Ranks of the mesh, or of a dimension of it."""
        return 1

    def get_local_rank(self, dim: int | str | None = None) -> int:
        """The rank at work."""
        return 0

    def __getitem__(self, names: object) -> _Mesh:
        return self


def noted(whole: torch.nn.Module, divide: Callable[[Any, Any], Any]) -> dict[str, str]:
    """The plan that `divide(module, mesh)` applies to a module or to modules inside. Raises
    `InputError` for a style without a word."""
    paths = {id(each): path for path, each in whole.named_modules()}
    found: dict[str, Any] = {}

    def note(
        module: torch.nn.Module,
        device_mesh: Any = None,
        parallelize_plan: Any = None,
        **_: Any,
    ) -> torch.nn.Module:
        path = paths.get(id(module))
        if path is None:
            said = f"divides a {type(module).__name__} that is not in the module"
            raise InputError([Problem("", "tp_plan", said, "modules inside of it")])
        plan = parallelize_plan
        for name, style in (plan if isinstance(plan, Mapping) else {"": plan}).items():
            found[".".join(part for part in (path, name) if part)] = style
        return module

    with _in_place_of_parallelize(note):
        divide(whole, _Mesh())
    return words(whole, found)


def words(module: torch.nn.Module, plan: Mapping[str, Any]) -> dict[str, str]:
    """A plan with words in place of PyTorch's styles. Raises `InputError`."""
    made = {name: _word(module, name, style) for name, style in plan.items()}
    return {name: word for name, word in made.items() if word}


def _word(module: torch.nn.Module, name: str, style: Any) -> str:
    if isinstance(style, str):
        return style
    kinds = [each.__name__ for each in type(style).__mro__]
    if "RowwiseParallel" in kinds:
        pattern = name.split(".")
        return "vocabulary" if _is_table(module, pattern) else "rowwise"
    if "ColwiseParallel" in kinds:
        given = getattr(style, "output_layouts", None) or ()
        whole = any(type(each).__name__ == "Replicate" for each in given)
        return "colwise_gather_output" if whole else "colwise"
    if _IDLE.intersection(kinds):
        return ""
    said = f"{kinds[0]} of {name} is unknown"
    help_ = "ColwiseParallel, RowwiseParallel, SequenceParallel, or a word such as colwise"
    raise InputError([Problem("", "tp_plan", said, help_)])


def _is_table(module: torch.nn.Module, pattern: list[str]) -> bool:
    """Whether a name or pattern is that of an embedding."""
    return any(
        isinstance(each, torch.nn.Embedding)
        and len(parts := path.split(".")) == len(pattern)
        and all(asked in ("*", part) for asked, part in zip(pattern, parts, strict=True))
        for path, each in module.named_modules()
    )


@contextmanager
def _in_place_of_parallelize(stand: Callable[..., torch.nn.Module]) -> Iterator[None]:
    """Puts a function in place of `parallelize_module` wherever it was imported."""
    from torch.distributed.tensor.parallel import parallelize_module

    with ExitStack() as stack:
        for place in list(sys.modules.values()):
            if vars(place).get("parallelize_module") is parallelize_module:
                stack.enter_context(mock.patch.object(place, "parallelize_module", stand))
        yield
