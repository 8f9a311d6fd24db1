"""What a generated workload amounts to: parameters, floating-point operations, volumes, memory. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Volume:
    """What one rank hands to the collectives of one kind on one group in a step (`kind` is `send` for messages).

    `bytes` is the sum of the input buffers (of one NPU's contributions for all_gather and gather).
    """

    group: str
    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Memory:
    """Peak bytes on one NPU by what they hold."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    temporary: int = 0
    """What is neither: gradients on their way, gathered and unreduced activations."""

    @property
    def total(self) -> int:
        """All of it, bytes."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.temporary


@dataclass(frozen=True)
class RankClass:
    """Ranks that run one program: what one of them does in a step."""

    name: str
    ranks: int
    operations: int
    volumes: tuple[Volume, ...]
    memory: Memory


@dataclass(frozen=True)
class Summary:
    """A workload in numbers.

    `batch` counts samples (sequences, images) a step, `tokens` those of its sequences (0 of other samples). `flops` are
    the model's own floating-point operations of a step, all ranks together, `hardware_flops` those with recomputation.
    `bubble` is the share of a step in which a pipeline stage has nothing to do, by the schedule's formula.
    """

    model: str
    family: str
    ranks: int
    parameters: int
    active_parameters: int
    batch: int
    flops: int
    hardware_flops: int
    bubble: float
    classes: tuple[RankClass, ...]
    notes: tuple[str, ...] = ()
    tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Summary:
        """The summary that `as_dict` made this of."""
        # Workloads written before tokens were counted have none.
        plain = {"tokens": 0} | {field.name: data[field.name] for field in fields(cls) if field.name in data}
        classes = tuple(
            RankClass(
                **{
                    **entry,
                    "volumes": tuple(Volume(**volume) for volume in entry["volumes"]),
                    "memory": Memory(**entry["memory"]),
                }
            )
            for entry in plain["classes"]
        )
        return cls(**{**plain, "classes": classes, "notes": tuple(plain["notes"])})
