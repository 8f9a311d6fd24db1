"""What a program hands to the network."""

from __future__ import annotations

from collections.abc import Sequence

from armillary.workload import Program


class Listed(Program):
    """A program that remembers the names and sizes of its collectives."""

    def __init__(self) -> None:
        self.exchanged: list[tuple[str, int]] = []

    def collective(
        self, name: str, deps: Sequence[int], kind: str, bytes: int, group: str = "", **rest: int
    ) -> int:
        self.exchanged.append((name, bytes))
        return super().collective(name, deps, kind, bytes, group, **rest)
