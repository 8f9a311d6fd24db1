"""From a checkpoint back to a model in training, on any number of ranks and in any sharding.

Here: what a run must have in common with a checkpoint, and putting everything in its place. Not
here: reading (`content.py`), when (`run_checkpoints.py`)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import msgspec
import numpy as np
import torch

from armillary import old_words
from armillary.errors import InputError, Problem

from ..build import Embeddings
from ..net.metrics import Streaming
from ..net.model import Dlrm
from ..ranks.world import World
from ..settings import Settings, option
from ..tensor_files import damaged
from .content import Content
from .manifest import MANIFEST, Stored
from .saver import Extra
from .shards import Shard, array_of, set_steps, tensor_of
from .snapshot import PIECE

if TYPE_CHECKING:
    from numpy.typing import NDArray

FREE = frozenset(
    {
        "model", "ranks", "steps", "samples", "device", "accumulate", "cache", "table_dir",
        "cache_policy", "eval_every", "eval_samples", "threads", "plan", "pipeline", "timeout",
        "readers", "readers_on",
        "checkpoint", "checkpoint_every", "checkpoint_precision", "keep", "resume", "trace",
        "trace_steps",
    }
)  # fmt: skip
"""Settings that may differ between a checkpoint and the run that goes on from it. Of the model,
the tables and the shapes of dense parameters must be the same."""

DENSE_STATE: dict[str, set[str]] = {
    "sgd": set(),
    "adagrad": {"step", "sum"},
    "adam": {"step", "exp_avg", "exp_avg_sq"},
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
}
"""States that PyTorch's optimizers keep for each parameter."""

_Word = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Found = TypeVar("_Found")


class Trainee(Protocol):
    """A model in training on one rank, as `loop.Trainer`."""

    settings: Settings
    world: World
    embeddings: Embeddings
    model: Dlrm
    optimizer: torch.optim.Optimizer
    seen: Streaming


def together(world: World, work: Callable[[], _Found]) -> _Found:
    """Result of `work`. An `InputError` of a rank is raised on all of them."""
    found, problems = None, list[Problem]()
    try:
        found = work()
    except InputError as error:
        problems = error.problems
    every = [problem for each in world.gather(problems, list[Problem]) for problem in each]
    if every:
        raise InputError(list(dict.fromkeys(every)))
    return found  # type: ignore[return-value]


def require_fit(content: Content, settings: Mapping[str, Any], tables: Sequence[Stored]) -> None:
    """Raises `InputError` listing what a run and a checkpoint don't have in common."""
    path = str(content.folder.of(content.last.step))
    problems = []
    known, _ = old_words.keywords("train", content.last.settings or {})
    for name in sorted((known.keys() & settings.keys()) - FREE):
        if known[name] != settings[name]:
            said = f"{settings[name]} does not fit the checkpoint, which has {known[name]}"
            problems.append(Problem(path, option(name), said, f"{known[name]}"))
    mine = {table.name: table for table in tables}
    for name in sorted(mine.keys() | content.tables.keys()):
        one, other = mine.get(name), content.tables.get(name)
        if one is None or other is None:
            said = "is in the checkpoint only" if one is None else "is not in the checkpoint"
            problems.append(Problem(path, f"table {name!r}", said, "the same model"))
        elif (one.rows, one.dim, one.dtype) != (other.rows, other.dim, other.dtype):
            said = f"has {_shape(one)}; the checkpoint has {_shape(other)}"
            problems.append(Problem(path, f"table {name!r}", said, "the same model"))
        elif other.state and one.state != other.state:  # Imported tables have none.
            said = f"has the state {list(one.state)}; the checkpoint has {list(other.state)}"
            problems.append(Problem(path, f"table {name!r}", said, "the same optimizer"))
    if problems:
        raise InputError(problems[:20])


def _shape(table: Stored) -> str:
    return f"{table.rows:,} x {table.dim} elements of {table.dtype}"


def restore_tables(content: Content, shards: Sequence[Shard]) -> None:
    """Gives this rank's shards their rows and state."""
    for shard in shards:
        name = shard.whole.name
        parts = ["weight", *(part for part in shard.whole.state if content.has(name, part))]
        step = max(1, PIECE // max(1, shard.record))
        for first in range(0, shard.table.rows, step):
            count = min(step, shard.table.rows - first)
            rows = range(shard.rows[first], shard.rows[first] + count)
            found = {part: content.rows(name, part, rows, shard.columns) for part in parts}
            if len(parts) <= len(shard.whole.state):
                found = {**_zeros(shard, count), **found}
            shard.write(first, found)


def _zeros(shard: Shard, count: int) -> dict[str, NDArray[Any]]:
    return {
        part: np.zeros(count if by_row else (count, shard.table.dim), np.float32)
        for part, by_row in shard.whole.state.items()
    }


def dense_tensors(trainee: Trainee) -> Extra:
    """Copies of the dense parameters and of their optimizer's state."""
    found = {
        f"dense.{name}": array_of(value) for name, value in trainee.model.parts.state_dict().items()
    }
    for number, state in trainee.optimizer.state_dict()["state"].items():
        for name, value in state.items():
            found[f"dense_optimizer.{number}.{name}"] = array_of(torch.as_tensor(value))
    return {key: (kind, values.copy()) for key, (kind, values) in found.items()}


def restore_dense(content: Content, trainee: Trainee) -> None:
    """Gives the dense parameters and their optimizer what a checkpoint has. Raises `InputError`:
    other parameters."""
    path = content.folder.of(content.last.step) / MANIFEST
    found = _tensors(content, "dense.")
    mine = trainee.model.parts.state_dict()
    for name in sorted(mine.keys() | found.keys()):
        one, other = (
            list(each[name].shape) if name in each else "not there" for each in (mine, found)
        )
        if one != other:
            said = f"is {one}; the checkpoint has {other}"
            place = f"dense parameter {name!r}"
            raise InputError([Problem(str(path), place, said, "the same model")])
    trainee.model.parts.load_state_dict(found)
    state = _optimizer_state(_tensors(content, "dense_optimizer."), trainee, path)
    if state:
        groups = trainee.optimizer.state_dict()["param_groups"]
        trainee.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _optimizer_state(
    found: dict[str, torch.Tensor], trainee: Trainee, path: Path
) -> dict[int, dict[str, torch.Tensor]]:
    """The state of the dense optimizer by the numbers of parameters; nothing if it has not begun.
    Raises `InputError`: it is not that of these parameters."""
    groups = trainee.optimizer.param_groups
    wanted = dict(enumerate(each for group in groups for each in group["params"]))
    state: dict[int, dict[str, torch.Tensor]] = {number: {} for number in wanted}
    for key in sorted(found):
        number, _, name = key.partition(".")
        each = wanted.get(int(number)) if re.fullmatch("[0-9]{1,6}", number) else None
        shape = () if name == "step" else getattr(each, "shape", None)
        # Before version 0.2, files had the step as one row.
        value = found[key].reshape(()) if name == "step" and found[key].numel() == 1 else found[key]
        if (
            name not in DENSE_STATE[trainee.settings.dense_optimizer]
            or each is None
            or value.shape != shape
        ):
            raise damaged(path, f"dense optimizer: {key[:100]!r}", "is not one of its numbers")
        state[int(number)][name] = value
    if found and any(len(each) != len(next(iter(state.values()))) for each in state.values()):
        raise damaged(path, "dense optimizer", "has numbers of some parameters only")
    return state if found else {}


def _tensors(content: Content, prefix: str) -> dict[str, torch.Tensor]:
    kinds = content.kinds(prefix)
    return {
        key: tensor_of(values, kinds[key]).clone()
        for key, values in content.tensors(prefix).items()
    }


def rank_tensors(trainee: Trainee) -> Extra:
    """Tensors that each rank has of its own: states of random numbers, and streaming scores."""
    rank = trainee.world.rank
    legacy = np.random.get_state(legacy=False)
    assert isinstance(legacy, dict)
    numbers = {**legacy, "state": {**legacy["state"], "key": legacy["state"]["key"].tolist()}}
    text = json.dumps({"python": random.getstate(), "numpy": numbers}).encode()
    found: Extra = {
        f"random.{rank}.torch": array_of(torch.get_rng_state()),
        f"random.{rank}.other": ("U8", np.frombuffer(text, np.uint8)),
        f"metrics.{rank}": ("F64", trainee.seen.state.copy()),
    }
    if trainee.settings.device == "cuda":
        found[f"random.{rank}.cuda"] = array_of(torch.cuda.get_rng_state())
    return found


def restore_rank(content: Content, trainee: Trainee) -> None:
    """Gives this rank its own state. On another number of ranks, those without one get that of
    rank 0, and scores of all old ranks are shared out, so that their sums stay."""
    rank, size = trainee.world.rank, trainee.world.size
    states = content.tensors("random.")
    source = rank if f"{rank}.torch" in states else 0
    path = content.folder.of(content.last.step) / MANIFEST
    if f"{source}.torch" in states:
        try:
            _restore_random(states, source, cuda=trainee.settings.device == "cuda")
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            said = f"is not a state of random numbers: {type(error).__name__}"
            raise damaged(path, f"random.{source}", said) from None
    trainee.seen.clear()
    for name, state in content.tensors("metrics.").items():
        if not re.fullmatch("[0-9]{1,9}", name) or state.shape != trainee.seen.state.shape:
            raise damaged(path, f"metrics.{name[:40]}", "is not scores of a rank")
        if int(name) % size == rank:
            trainee.seen.state += state


class _Key(msgspec.Struct):
    key: Annotated[list[_Word], msgspec.Meta(min_length=624, max_length=624)]
    pos: Annotated[int, msgspec.Meta(ge=0, le=624)]


class _OfNumpy(msgspec.Struct):
    """State of NumPy's generator, which takes any place in its key on trust."""

    bit_generator: Literal["MT19937"]
    state: _Key
    has_gauss: Annotated[int, msgspec.Meta(ge=0, le=1)]
    gauss: float


class _Random(msgspec.Struct):
    """States of random numbers, but for PyTorch's."""

    python: tuple[int, list[int], float | None]
    numpy: _OfNumpy


def _restore_random(states: dict[str, NDArray[Any]], source: int, *, cuda: bool) -> None:
    torch.set_rng_state(torch.from_numpy(states[f"{source}.torch"]))
    found = msgspec.convert(json.loads(states[f"{source}.other"].tobytes()), _Random)
    version, internal, gauss = found.python
    random.setstate((version, tuple(internal), gauss))
    numbers = msgspec.to_builtins(found.numpy)
    numbers["state"]["key"] = np.array(found.numpy.state.key, np.uint32)
    np.random.set_state(numbers)
    if cuda and f"{source}.cuda" in states:
        torch.cuda.set_rng_state(torch.from_numpy(states[f"{source}.cuda"]))


def restore(content: Content, trainee: Trainee, shards: Sequence[Shard]) -> None:
    """Gives a model in training the state of a checkpoint, which fits."""
    restore_tables(content, shards)
    set_steps(trainee.embeddings, content.last.progress["updates"])
    restore_dense(content, trainee)
    restore_rank(content, trainee)
