"""The answer of a search over several machines, and of one that was stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .result import LayoutPlan, Ranked

Status = Literal["best", "behind", "excluded", "late", "open", "unfit"]
"""The best machine; one whose best layout is behind; one that bounds exclude without a simulation;
one that is too slow for the days; one that was not simulated before the user stopped the search;
one on which no layout fits."""


@dataclass(frozen=True, slots=True)
class MachineAnswer:
    """A number of NPUs of a platform, and its best layouts."""

    platform: str
    ranks: int
    status: Status
    reason: str
    """Why it is not the best; empty for the best one."""
    price: float | None = None
    """Dollars of an NPU hour, as stated."""
    layouts: int = 0
    """Layouts of its space."""
    bound_ns: float | None = None
    """Lower bound of the step of all its layouts that fit."""
    least_bytes: int | None = None
    """The least memory of the fullest rank."""
    plan: LayoutPlan | None = None
    """Simulated layouts of the machine; none where bounds were enough. Where the objective is
    memory, only layouts of the least memory. Refused layouts and the picture of the space are
    there for the best machine alone."""
    tokens_per_dollar: float | None = None
    """That of the fastest simulated layout."""
    days: float | None = None
    """Days of the job with this layout."""
    dollars: float | None = None
    """Dollars of the job with this layout."""
    separated: bool = True
    """Whether the uncertainty of predictions separates it from the best machine."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A simulated layout that no other simulated one beats in speed, tokens for a dollar (where all
    machines have a price) and memory at once."""

    machine: int
    """Index of the machine."""
    options: Mapping[str, object]
    step_ns: float
    tokens_per_s: float
    tokens_per_dollar: float | None
    memory_bytes: int
    gap: float
    """No layout of any machine that needs at most this memory is better by more than this share in
    both speed and tokens for a dollar."""


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The best layout and machine, and what the search proved."""

    model: str
    objective: str
    global_batch: int
    """Samples of a step."""
    seq: int
    """Tokens of a sample."""
    tokens: float | None
    """Tokens of the job."""
    limit_days: float | None
    """Days in which the job has to be done."""
    steps: int | None
    """Steps of the job."""
    machines: list[MachineAnswer]
    best: int
    """Index of the best machine."""
    gap: float
    """No layout of any machine has a value of the objective that is lower by more than this share:
    time of a step, dollars for a token; with the least memory time of a step."""
    open_layouts: int
    """Layouts that were not simulated and whose bounds are below the best value."""
    front: list[FrontPoint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stopped: bool = False
    """Whether the user stopped the search. The gap holds, `open_layouts` may be more, and there may
    be no front."""

    @property
    def machine(self) -> MachineAnswer:
        """The best machine."""
        return self.machines[self.best]

    @property
    def plan(self) -> LayoutPlan:
        """The layouts of the best machine."""
        found = self.machine.plan
        assert found is not None
        return found

    @property
    def winner(self) -> Ranked:
        """The best layout."""
        return self.plan.winner

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        found["machines"] = [_machine(each) for each in self.machines]
        found["front"] = [dataclasses.asdict(each) for each in self.front]
        return found


class SearchInterrupted(KeyboardInterrupt):
    """A Ctrl-C (`stop`), with what the search had found (`found`)."""

    def __init__(self, found: LayoutPlan | MachinePlan, stop: KeyboardInterrupt) -> None:
        super().__init__()
        self.found = found
        self.stop = stop


def _machine(answer: MachineAnswer) -> dict[str, Any]:
    found = {each.name: getattr(answer, each.name) for each in dataclasses.fields(answer)}
    return {**found, "plan": None if answer.plan is None else answer.plan.to_dict()}
