"""Messages between ranks: any plain value arrives as it is, and nothing else is taken."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
else:
    torch = pytest.importorskip("torch")
    dist = torch.distributed

import msgspec
import numpy as np

from armillary.errors import InputError, Problem, TrainingError
from armillary_train.ranks.world import World


@dataclass
class Call:
    """An object whose pickle calls a function."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], World]:
    """Rank 0 of two; rank 1 sends the given bytes."""

    def meet(sent: bytes) -> World:
        def all_reduce(sizes: torch.Tensor) -> None:
            sizes[1] = len(sent)

        def all_gather(found: list[torch.Tensor], mine: torch.Tensor) -> None:
            found[0].copy_(mine)
            found[1][: len(sent)] = torch.tensor(list(sent), dtype=torch.uint8)

        monkeypatch.setattr(dist, "all_reduce", all_reduce)
        monkeypatch.setattr(dist, "all_gather", all_gather)
        return World(0, 2)

    return meet


def test_plain_values_arrive(other: Callable[[bytes], World]) -> None:
    theirs = [Problem("a", "b", "c"), Problem("", "\u0663", "d\n", "e")]
    world = other(msgspec.msgpack.encode(theirs))
    assert world.gather([], list[Problem]) == [[], theirs]
    numbers = (1.5, -0.0, math.inf)
    assert other(msgspec.msgpack.encode(numbers)).gather(
        (5e-324, 0.1, 2.0), tuple[float, float, float]
    ) == [(5e-324, 0.1, 2.0), numbers]
    values = np.array([0.1, math.nan, -0.0], np.float32)
    world = other(msgspec.msgpack.encode(values.tobytes()))
    found = world.gather_array(values[:1])
    assert [each.tobytes() for each in found] == [values[:1].tobytes(), values.tobytes()]


def test_nothing_that_a_rank_sends_is_run(other: Callable[[bytes], World], tmp_path: Path) -> None:
    """The messages of ranks come over a network (`torchrun`)."""
    mark = tmp_path / "PWNED"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        world = other(pickle.dumps(Call(os.mkdir, (str(mark),)), protocol))
        with pytest.raises(TrainingError, match="can't be understood"):
            world.gather([], list[Problem])
    assert not mark.exists()


@pytest.mark.parametrize(
    "sent", [b"", b"\xc1", b"\x01", b"\x91\x01", b"\x91\x80", b"\xdd" + b"\xff" * 4]
)
def test_other_types_are_refused(other: Callable[[bytes], World], sent: bytes) -> None:
    with pytest.raises(TrainingError, match="can't be understood"):
        other(sent).gather([], list[Problem])


def test_a_message_of_any_size_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (2**62, -1):
        monkeypatch.setattr(dist, "all_reduce", lambda sizes, size=size: sizes.fill_(size))
        with pytest.raises(TrainingError, match="messages of"):
            World(0, 2).gather(1, int)


def test_ranks_that_disagree_say_about_what(other: Callable[[bytes], World]) -> None:
    world = other(msgspec.msgpack.encode({"steps": 5}))
    with pytest.raises(InputError, match="4 on rank 0, 5 on rank 1"):
        world.agree({"steps": 4})
