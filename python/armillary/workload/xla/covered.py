"""The part of a module that is in the workload of a rank. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Row:
    """Instructions of one kind that a rank runs, those of loops as often as they run."""

    count: int = 0
    operations: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def add(self, operations: int, transcendentals: int, size: int) -> None:
        """One more of them."""
        self.count += 1
        self.operations += operations
        self.transcendentals += transcendentals
        self.bytes += size


@dataclass(frozen=True)
class ModuleCoverage:
    """A rank's instructions by kind, and what was left out."""

    module: str
    computation: str
    replicas: int
    partitions: int
    scheduled: bool
    instructions: int
    """Instructions that a rank runs."""
    computed: Mapping[str, Row] = field(default_factory=dict)
    """Kernels by kind; `bytes` are read and written."""
    collectives: Mapping[str, Row] = field(default_factory=dict)
    """Collectives by kind; `bytes` are those that a rank hands over."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason -> instructions."""
    peak_bytes: int | None = None
    """Memory that the compiler set aside, where the file has the assignment of buffers."""

    @property
    def operations(self) -> int:
        """Operations of a rank, without transcendentals."""
        return sum(row.operations for row in self.computed.values())

    @property
    def transcendentals(self) -> int:
        """Exponentials, logarithms and the like of a rank."""
        return sum(row.transcendentals for row in self.computed.values())

    @property
    def bytes(self) -> int:
        """Bytes that the kernels of a rank read and write."""
        return sum(row.bytes for row in self.computed.values())

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        sums = {
            "operations": self.operations,
            "transcendentals": self.transcendentals,
            "bytes": self.bytes,
        }
        return {**asdict(self), **sums}
