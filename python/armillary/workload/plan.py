"""The units of every pipeline stage: what is gathered, reduced and run together, with what it
weighs and keeps.

Here: units in chunks, and what a stage's ranks hold of them, whatever the model. Not here: layers
of decoders as units (`decoder_plan.py`), where parts are (`placement.py`), the program of a stage
(`stage.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..model.weights import Tensors, Weights
from . import zero
from .memory import EMBEDDING, HEAD, LAYER, Rules, Sizes, on_rank, shares
from .placement import Layout, PipelinePlacement
from .schedule import Pass, order
from .script import Script, Scripts
from .setting import StageSetting
from .summary import Memory, Offloaded

NONE = Weights()
"""No parameters."""


@dataclass(frozen=True)
class Unit:
    """Parameters that are gathered and reduced together: a layer, the embedding or the head, with
    its scripts."""

    name: str
    scripts: Scripts
    again: Script
    """Computed again before the backward pass."""
    weights: Weights
    tensors: Tensors
    activations: int
    width: int
    """Bytes of an element of a gathered parameter."""
    narrow: int = 0
    """Parameters with 8-bit copies."""
    frozen: Weights = NONE
    """Parameters among `weights` that are not trained. `tensors` are without them."""
    back: int = 0
    """Bytes that recomputation brings back for its backward pass, where it counts layers."""
    spared: int = 0
    """Bytes among `activations` that recomputation would not keep, where it counts layers."""
    together: int = 1
    """Units up to this one that are computed again before its backward pass; 0 where a later unit
    counts this one."""

    @property
    def trained(self) -> Weights:
        """Parameters that have gradients and optimizer state."""
        return self.weights - self.frozen

    def sizes(self, experts: int) -> Sizes:
        """Sizes of a unit on a rank with this number of experts, which are alike."""
        trained, tensors = self.trained, self.tensors
        # A module's copy of the embedding has its gradient while layers' tensors are still there.
        ends = {"embedding": EMBEDDING, "head": HEAD}
        embeds = self.name.endswith("embedding")
        return Sizes(
            trained.dense,
            trained.expert,
            self.frozen.dense,
            self.frozen.expert,
            self.activations,
            0 if embeds else trained.dense + trained.expert // experts,
            max((0, *tensors.dense, *tensors.expert)),
            self.narrow,
            self.back,
            self.spared,
            ends.get(self.name, LAYER),
        )


@dataclass(frozen=True)
class Chunk:
    """Consecutive units that a stage runs in one pass."""

    units: tuple[Unit, ...]


class StagePlan(ABC):
    """The units of every stage."""

    def __init__(self, at: StageSetting, layout: Layout) -> None:
        self.at = at
        self.layout = layout
        self.place = placement(at)

    @cached_property
    def stages(self) -> list[list[Chunk]]:
        """Chunks of each stage."""
        return [self._stage(stage) for stage in range(self.at.par.pp)]

    @abstractmethod
    def _stage(self, stage: int) -> list[Chunk]:
        """Chunks of a stage; its layers are named by their number in the model, from 0."""

    @abstractmethod
    def rules(self, stage: int) -> Rules:
        """All that decides the memory of a stage besides its units."""

    @property
    @abstractmethod
    def experts(self) -> int:
        """Experts of a layer on a rank that are alike, at least 1."""

    @property
    @abstractmethod
    def sharing(self) -> list[int]:
        """Stages other than the first that hold their own copy of the embedding."""

    @property
    @abstractmethod
    def shared(self) -> int:
        """Parameters of that copy on one rank."""

    def weights(self, stage: int) -> Weights:
        """Parameters of one rank of a stage."""
        return sum(
            (unit.weights for chunk in self.stages[stage] for unit in chunk.units), Weights()
        )

    def trained(self, stage: int) -> Weights:
        """Parameters of one rank of a stage that have gradients and optimizer state."""
        return sum(
            (unit.trained for chunk in self.stages[stage] for unit in chunk.units), Weights()
        )

    def pieces(self, stage: int) -> dict[str, list[zero.Piece]]:
        """Pieces of each unit that the owners of whole tensors hold."""
        units = {unit.name: unit.tensors for chunk in self.stages[stage] for unit in chunk.units}
        return zero.pieces(units, self.at.par)

    def owned(self, stage: int) -> int:
        """Parameters of a stage that one of its ranks updates, the one with most."""
        par = self.at.par
        if par.whole_tensors:
            return zero.most(
                zero.merged([piece for found in self.pieces(stage).values() for piece in found])
            )
        trained = self.trained(stage)
        return zero.owned(trained, par) if par.zero else trained.total

    def order(self, stage: int) -> list[Pass]:
        """Passes of a stage."""
        par = self.at.par
        return order(
            par.schedule, stage, par.pp, par.micro_batches, par.virtual_stages, par.overlap_passes
        )

    def memory(self, stage: int, passes: Sequence[Pass]) -> Memory:
        """Peak bytes on one NPU of a stage."""
        return self._on_rank(stage, passes)[0]

    def host(self, stage: int) -> Offloaded:
        """Bytes of a stage that are offloaded from each of its NPUs."""
        none = self.at.par.offload == "none"
        return Offloaded() if none else self._on_rank(stage, self.order(stage))[1]

    def _on_rank(self, stage: int, passes: Sequence[Pass]) -> tuple[Memory, Offloaded]:
        par = self.at.par
        chunks = [
            [unit.sizes(self.experts) for unit in chunk.units] for chunk in self.stages[stage]
        ]
        owned = self.owned(stage) if par.whole_tensors else None
        return on_rank(chunks, passes, self.rules(stage), shares(par, owned))


def placement(at: StageSetting) -> PipelinePlacement:
    """Where the parts of the pipeline are."""
    par = at.par
    return PipelinePlacement(par.pp, 2 if par.both_ways else par.virtual_stages, par.both_ways)
