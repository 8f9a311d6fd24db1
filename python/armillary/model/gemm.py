"""The shape of a matrix multiplication, as models state it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gemm:
    """`batch` times (m x k) times (k x n)."""

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def operations(self) -> int:
        """Floating-point operations, two for each multiply-and-add."""
        return 2 * self.batch * self.m * self.n * self.k
