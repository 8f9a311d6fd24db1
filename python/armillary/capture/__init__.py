"""Models captured from PyTorch: parameters, operations, bytes and saved tensors of a training step.

    import armillary as arm

    captured = arm.capture(module, {"x": torch.empty(4, 128)})
    captured.parameters.total, captured.flops, captured.saved

Needs PyTorch, and `transformers` for configurations of Hugging Face: `pip install
'armillary[capture]'`. No weights are read, nothing is downloaded, and no tensor has data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Problem
from ..model.files import load_model
from ..model.huggingface_names import CAPTURED

if TYPE_CHECKING:
    import torch

    from .parameter_counts import Parameters
    from .result import Capture
    from .treated import Treat

__all__ = ["capture", "parameters"]


def capture(
    model: torch.nn.Module | str | os.PathLike[str],
    inputs: Mapping[str, Any] | Sequence[Any] | torch.Tensor | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    batch: int = 1,
    sequence: int = 4096,
    images: int = 0,
    image_size: int = 0,
    name: str = "",
    tp_plan: Mapping[str, Any] | Callable[[Any, Any], Any] | None = None,
    ep_plan: Mapping[str, str] | None = None,
    treat: Treat = (),
) -> Capture:
    """One training step of `model`, recorded without data on one device.

    `model` is a module with its `inputs` (tensors of any device, by name or in order; values are
    not used), or a Hugging Face `config.json`, whose class of `transformers` gets `batch` samples
    of `sequence` tokens, and of `images` next to them, `image_size` pixels high and wide (0: as the
    configuration says). `loss` makes one number of a module's result; without it the backward pass
    begins at the result's `loss`, or at all results. Modules of a list that are alike are run once.
    `treat` names stands for classes of modules that cannot be captured: {"Router": "linear"}.

    `tp_plan` says how tensor parallelism divides a module's parameters, `{"layers.*.q_proj":
    "colwise"}`, also with PyTorch's styles (`ColwiseParallel()`), or is a function of module and
    mesh that calls `parallelize_module`. `ep_plan` says which parameters hold experts,
    `{"layers.*.experts.*": "experts"}` (docs/models/capture.md). Plans of a configuration, or of a
    module of `transformers`, come from `transformers`.

    Raises `InputError` where the model is not known, needs code that comes with it, or stops on
    tensors without data."""
    _check_torch()
    import torch

    from . import plans, run

    if isinstance(model, torch.nn.Module):
        if inputs is None:
            said = "a module needs its inputs"
            raise InputError([Problem("", "inputs", said, "tensors by name or in order")])
        rules = plans.of_module(model, tp_plan, ep_plan)
        found = run.record(model, inputs, loss, name or type(model).__name__, treat=treat)
        return replace(found, rules=rules)
    for option, plan in (("tp_plan", tp_plan), ("ep_plan", ep_plan)):
        if plan is not None:
            said = "given with a configuration, whose plan comes from transformers"
            raise InputError([Problem("", option, said, "a module")])
    values, file = _read(model)
    sizes = batch, sequence, images, image_size
    return of_configuration(values, file, *sizes, loss=loss, name=name, treat=treat)


def of_configuration(
    values: Mapping[str, Any],
    file: str,
    batch: int,
    sequence: int,
    images: int = 0,
    image_size: int = 0,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    name: str = "",
    treat: Treat = (),
) -> Capture:
    """One training step of a Hugging Face configuration that was read from `file`; see `capture`.
    Raises `InputError`."""
    _check_torch()
    from . import hugging_face, multi_token, plans, run
    from .inputs import Sizes, of_model

    sizes = Sizes(batch, sequence, images, image_size)
    for key, least in (("batch", 1), ("sequence", 1), ("images", 0), ("image_size", 0)):
        value = getattr(sizes, key)
        if not least <= value <= _MOST:
            raise InputError([Problem("", key, f"invalid count: {value}", f"{least} to {_MOST:,}")])
    module = hugging_face.build(values, file)
    given, usual = of_model(module, sizes, file)
    part = "" if images else hugging_face.text_part(module)
    rules = plans.of_transformers(module)
    count, said = multi_token.left_out(module)
    found = run.record(module, given, loss or usual, name or file, part, treat, own=True)
    return replace(
        found,
        rules=rules,
        parameters=replace(found.parameters, multi_token=count),
        warnings=(*found.warnings, *([said] if said else [])),
    )


def parameters(config: str | os.PathLike[str]) -> Parameters:
    """Parameters of a Hugging Face `config.json`, counted on the class of `transformers`, without a
    step. Raises `InputError` where the model is not known or needs code that comes with it."""
    _check_torch()
    from . import hugging_face, multi_token
    from .parameter_counts import Parameters

    module = hugging_face.build(*_read(config))
    return replace(Parameters.of(module), multi_token=multi_token.left_out(module)[0])


_MOST = 2**24
"""Samples, or tokens, images or pixels of a sample."""


def _check_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        said = "needs PyTorch, which is not installed"
        help_ = "pip install 'armillary[capture]'"
        raise InputError([Problem("", "capture", said, help_)]) from None


def _read(path: str | os.PathLike[str]) -> tuple[Mapping[str, Any], str]:
    """The values of a configuration, and its file."""
    found = load_model(CAPTURED + os.fspath(path))
    return found.fields, found.file
