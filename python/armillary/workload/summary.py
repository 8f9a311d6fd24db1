"""Summary of a generated workload: parameters, floating-point operations, volumes, memory. Data
only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec

from ..errors import InputError, Problem

Count = Annotated[int, msgspec.Meta(ge=0)]
_HELP = "the summary that armillary workload or import wrote, or none"


@dataclass(frozen=True)
class Volume:
    """Bytes that one rank hands to the collectives of one kind on one group in a step (`kind` is
    `send` for messages).

    `bytes` is the sum of the input buffers (of one NPU's contributions for all_gather and gather).
    """

    group: str
    kind: str
    count: Count
    bytes: Count


@dataclass(frozen=True)
class Memory:
    """Peak bytes on one NPU by what they hold."""

    weights: Count = 0
    gradients: Count = 0
    optimizer: Count = 0
    activations: Count = 0
    temporary: Count = 0
    """All other tensors: gradients on their way, gathered and unreduced activations."""

    @property
    def total(self) -> int:
        """All that is on the NPU, bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.temporary


@dataclass(frozen=True)
class Offloaded:
    """Bytes of one NPU in a memory outside of it, by what they are."""

    weights: Count = 0
    gradients: Count = 0
    optimizer: Count = 0
    tables: Count = 0
    """Embedding tables; their optimizer state is in `optimizer`."""

    @property
    def total(self) -> int:
        """All of it, bytes."""
        return self.weights + self.gradients + self.optimizer + self.tables


@dataclass(frozen=True)
class RankClass:
    """Ranks that run one program: what one of them does in a step."""

    name: str
    ranks: Annotated[int, msgspec.Meta(ge=1)]
    operations: Count
    volumes: tuple[Volume, ...]
    memory: Memory
    host: Offloaded = Offloaded()
    """Bytes of a rank in the memory outside of its NPU."""
    disk: Offloaded = Offloaded()
    """Bytes of a rank on a disk behind that memory."""

    @property
    def outside(self) -> int:
        """All bytes of a rank outside of its NPU."""
        return self.host.total + self.disk.total


@dataclass(frozen=True)
class Summary:
    """A workload in numbers.

    `batch` counts samples (sequences, images) a step, `tokens` those of its sequences (0 of other
    samples). `flops` are the model's own floating-point operations of a step, all ranks together,
    `hardware_flops` those with recomputation. `bubble` is the share of a step in which a pipeline
    stage has nothing to do, by the schedule's formula."""

    model: str
    family: str
    ranks: Annotated[int, msgspec.Meta(ge=1)]
    parameters: Count
    active_parameters: Count
    batch: Count
    flops: Count
    hardware_flops: Count
    bubble: Annotated[float, msgspec.Meta(ge=0, le=1)]
    classes: tuple[RankClass, ...]
    notes: tuple[str, ...] = ()
    tokens: Count = 0

    @property
    def memory(self) -> int:
        """Peak bytes of the NPU that needs most."""
        return max((entry.memory.total for entry in self.classes), default=0)

    @property
    def host(self) -> int:
        """Bytes of the rank that has most in the memory outside of its NPU."""
        return max((entry.outside for entry in self.classes), default=0)

    @property
    def host_total(self) -> int:
        """Bytes of all ranks in the memory outside of their NPUs."""
        return sum(entry.ranks * entry.outside for entry in self.classes)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], file: str = "") -> Summary:
        """The summary that `as_dict` made this of, read from `file`; fields of later versions are
        left out.

        Raises `InputError` naming a field that is missing or does not fit.
        """
        try:
            # Workloads written before tokens were counted have none.
            return msgspec.convert({"tokens": 0, **data}, cls)
        except (msgspec.ValidationError, TypeError) as error:
            message, _, at = str(error).partition(" - at `$")
            place = "summary" + at.removesuffix("`")
            raise InputError([Problem(file, place, f"does not fit: {message}", _HELP)]) from None


def spans(names: Sequence[str]) -> str:
    """Names that differ only in a number at their end as one: `stages 0-3, 7`; others in a row."""
    found: dict[str, list[int]] = {}
    for name in names:
        stem, _, number = name.rpartition(" ")
        if not (stem and number.isascii() and number.isdigit()):
            return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
        found.setdefault(stem, []).append(int(number))
    return ", ".join(_span(stem, numbers) for stem, numbers in found.items())


def _span(stem: str, numbers: Sequence[int]) -> str:
    numbers = list(dict.fromkeys(numbers))
    if len(numbers) == 1:
        return f"{stem} {numbers[0]}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"{stem}s " + ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs
    )
