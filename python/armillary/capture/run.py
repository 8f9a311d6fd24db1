"""Captures a training step of a module: shapes without data go through it, forward and backward.

Here: the order of the steps, and what an error becomes. Not here: how operations are recorded
(`recorder.py`)."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.nn.modules import module as hooks
from torch.utils import _pytree as trees

from ..errors import InputError, Problem
from . import treated as stands
from . import without_data
from .catching import catching
from .parameter_counts import Parameters
from .recorder import Recorder
from .records import Block, Operation, SavedTensor
from .repeated import Repeats, without_gradient
from .result import Capture
from .tensors import Memories
from .treated import Treat
from .without_data import Inputs


def record(
    module: torch.nn.Module,
    inputs: Inputs,
    loss: Callable[[Any], torch.Tensor | None] | None,
    name: str,
    part: str = "",
    treat: Treat = (),
    *,
    own: bool = False,
) -> Capture:
    """Captures one training step of `module`, or of the `part` of it that takes the inputs, with
    the stands that `treat` names. A module that is `own` is used up. Raises `InputError` where it
    stops."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    copied = without_data.of_module(fake, module, own=own)
    args, kwargs = without_data.of_inputs(fake, inputs)
    memories = Memories()
    for path, each in copied.named_parameters():
        memories.name(each, path)
    for path, buffer in copied.named_buffers():
        memories.name(buffer, path)
    parameters = Parameters.of(copied)
    recorder, repeats = Recorder(memories), Repeats(copied, memories)
    stands.treat(copied, treat, recorder, name)
    # PyTorch logs a traceback of what becomes a problem below.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    try:
        _step(fake, recorder, repeats, copied, part, args, kwargs, loss)
    except InputError:
        raise
    except Exception as error:
        raise InputError([_stopped(error, recorder.stopped, module, name)]) from error
    return _capture(name, parameters, recorder, repeats, _size(args, kwargs))


def _step(
    fake: FakeTensorMode,
    recorder: Recorder,
    repeats: Repeats,
    module: torch.nn.Module,
    part: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    loss: Callable[[Any], torch.Tensor | None] | None,
) -> None:
    """One forward and one backward pass."""
    before = sys.exc_info()[1]
    paths = {id(each): path for path, each in module.named_modules()}

    def enter(each: torch.nn.Module, _: object) -> None:
        recorder.path.append(paths.get(id(each), recorder.path[-1]))

    def leave(each: torch.nn.Module, _: object, __: object) -> None:
        path = recorder.path.pop()
        if sys.exc_info()[1] is not before and not recorder.stopped:
            recorder.stopped = path

    with ExitStack() as stack:
        stack.enter_context(fake)
        stack.enter_context(repeats.once())
        for handle in (
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave, always_call=True),
        ):
            stack.callback(handle.remove)
        stack.enter_context(catching(module, recorder))
        with recorder, recorder.saving():
            result = module.get_submodule(part)(*args, **kwargs)
            end = loss(result) if loss else None
            ends = _ends(result) if end is None else [end]
        gradients = [torch.ones_like(end) for end in ends]
        with recorder:
            torch.autograd.backward(ends, gradients)


def _ends(result: Any) -> list[torch.Tensor]:
    """Where the backward pass begins: the loss that a model gives, or all its results."""
    given = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(given, torch.Tensor):
        return [given]
    leaves = result.values() if isinstance(result, Mapping) else trees.tree_leaves(result)
    ends = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    if ends:
        return ends
    said = "no result depends on a parameter that is trained"
    raise InputError([Problem("", "module", said, "a module with parameters that need a gradient")])


def _stopped(error: Exception, path: str, module: torch.nn.Module, name: str) -> Problem:
    """Where and why a capture stopped."""
    own = str(Path(torch.__file__).parent), str(Path(__file__).parent), "<"
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith(own)
    ]
    at = f", {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    inner = dict(module.named_modules()).get(path)
    kind = f" ({type(inner).__name__})" if inner is not None else ""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        lines = [f"{error.func} asks for the values of a tensor, which has none"]
    said = f"the capture stopped in {path or 'the module'}{kind}{at}: {lines[0]}"
    help_ = "inputs that fit, or code that does not branch on data"
    if inner is not None and path:
        called = type(inner).__name__
        help_ += f"; or a stand for the class: --treat {called}=RULE, with {stands.RULES}"
    return Problem(name, path, said, help_)


def _capture(
    name: str,
    parameters: Parameters,
    recorder: Recorder,
    repeats: Repeats,
    size: tuple[int, int],
) -> Capture:
    """Operations by block, and what is outside of all blocks."""
    uncounted = ", ".join(sorted(recorder.uncounted))
    first = {path: number for number, path in enumerate(repeats.alike)}
    operations = [
        replace(each, saved_in=tuple(recorder.saved_in.get(at, ())))
        for at, each in enumerate(recorder.operations, start=1)
    ]
    inside = [_block_of(each.module, first) for each in operations]
    ahead = [at for at, block in enumerate(inside) if block is not None]
    parts: dict[int | None, list[Operation]] = {number: [] for number in first.values()}
    before, after = [], []
    for at, (each, number) in enumerate(zip(operations, inside, strict=True)):
        if number is not None:
            parts[number].append(each)
        elif ahead and (at < ahead[0] or at > ahead[-1]):
            before.append(each)
        else:
            after.append(each)
    saved: dict[int | None, list[SavedTensor]] = {number: [] for number in first.values()}
    early: list[SavedTensor] = []
    late: list[SavedTensor] = []
    entered = {each.memory for operation in before for each in operation.writes}
    for kept in recorder.saved.values():
        number = _block_of(kept.module, first)
        if number is not None:
            saved[number].append(kept)
        else:
            (early if kept.memory in entered else late).append(kept)
    blocks: list[Block] = []
    numbers: dict[tuple[str, str], int] = {}
    for at, (path, alike) in enumerate(repeats.alike.items()):
        trained = any(each.backward for each in parts[at])
        unused = [each for each in alike if trained and each in repeats.stood - repeats.reached]
        used = [each for each in alike if each not in unused]
        entering = repeats.entering.get(path, ())
        numbers |= {(path, each): len(blocks) for each in used}
        blocks.append(Block(tuple(used), tuple(parts[at]), tuple(saved[at]), *entering))
        if unused:
            numbers |= {(path, each): len(blocks) for each in unused}
            blocks.append(without_gradient(blocks[-1], unused))
    return Capture(
        name,
        parameters,
        Block((), tuple(before), tuple(early)),
        tuple(blocks),
        Block((), tuple(after), tuple(late)),
        tuple(numbers[called] for called in repeats.order),
        *size,
        (f"operations are not counted of {uncounted}, only bytes",) if uncounted else (),
    )


def _block_of(module: str, blocks: Mapping[str, int]) -> int | None:
    """The number of the block that a module is in."""
    for path, number in blocks.items():
        if module == path or module.startswith(f"{path}."):
            return number
    return None


def _size(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """Samples of the first input, and tokens where it holds whole numbers."""
    leaves = trees.tree_leaves((args, kwargs))
    found = next((each for each in leaves if isinstance(each, torch.Tensor) and each.dim()), None)
    if found is None:
        return 1, 0
    if not found.shape[0]:
        raise InputError([Problem("", "inputs", "have no samples", "one sample or more")])
    return int(found.shape[0]), 0 if found.is_floating_point() else found.numel()
