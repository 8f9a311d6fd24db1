"""Service levels: limits of times that requests may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Service level (SLO), seconds; `None` for no limit."""

    ttft: float | None = None
    tpot: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return self.ttft is not None or self.tpot is not None

    @property
    def said(self) -> str:
        """In words."""
        pairs = (("first token", self.ttft), ("each token", self.tpot))
        return ", ".join(f"{name} within {1e3 * at:g} ms" for name, at in pairs if at is not None)
