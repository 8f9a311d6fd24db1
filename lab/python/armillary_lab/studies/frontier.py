"""Training steps of the largest models that were published, as their reports configure them.

Here: running one, and what its variations change. Not here: which models, and what was published
(`deepseek_v3`, `llama_405b`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from armillary.api import simulate
from armillary.platform import Platform
from armillary.units import NS_PER_S, TFLOP
from armillary.workload import build


@dataclass(frozen=True, slots=True)
class FrontierRun:
    """A model on a platform."""

    model: str
    platform: str
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def varied(
        self, options: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
    ) -> FrontierRun:
        """The same but for some options of the workload and settings of the platform."""
        return FrontierRun(
            self.model,
            self.platform,
            {**self.options, **(options or {})},
            {**self.settings, **(settings or {})},
        )


@dataclass(frozen=True, slots=True)
class FrontierStep:
    """Result of a run."""

    seconds: float
    """Seconds of a step."""
    ranks: int
    tokens: int
    """Tokens of a step."""
    flops: int
    """The model's own, of a step; attention's scores counted whole."""
    most: int
    """Bytes that the fullest NPU holds."""

    @property
    def gpu_hours(self) -> float:
        """GPU hours for 10^12 tokens."""
        return self.ranks * self.seconds / 3600 / self.tokens * 1e12

    @property
    def tflops(self) -> float:
        """10^12 operations of the model a second and GPU."""
        return self.flops / self.seconds / self.ranks / TFLOP


def step(run: FrontierRun, backend: str = "analytical") -> FrontierStep:
    """Generates one training step and simulates it on `backend`. Raises `InputError`."""
    workload = build(run.model, **run.options)
    summary = workload.summary
    assert summary is not None
    target = Platform.load(
        run.platform, {"topology": f"Switch(8)_Switch({workload.ranks // 8})", **run.settings}
    )
    seconds = simulate(workload, target, backend=backend).step_time_ns / NS_PER_S
    most = max(entry.memory.total for entry in summary.classes)
    return FrontierStep(seconds, workload.ranks, summary.tokens, summary.flops, most)
