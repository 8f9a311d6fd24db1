"""A model and its parallelism together: the sizes that every block of a layer needs.

Not here: what a layer does with them (`layer.py`, `attention.py`, `experts.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ..model.decoder import Decoder
from .parallelism import Parallelism


class StageSetting(Protocol):
    """A model and its parallelism as the program of a stage needs them."""

    @property
    def par(self) -> Parallelism:
        """The parallelism."""

    @property
    def full(self) -> int:
        """Bytes of the hidden states of a micro-batch on a rank, uncut."""

    @property
    def cut(self) -> int:
        """Bytes of the hidden states of a micro-batch on a rank, cut where sequence parallelism
        cuts them."""

    @property
    def eager(self) -> bool:
        """Whether kernels are plain PyTorch's, which write and keep more."""


@dataclass(frozen=True)
class Setting:
    """A model and its parallelism, with the sizes every block needs."""

    model: Decoder
    par: Parallelism
    tokens: int = field(init=False)
    """Tokens of a micro-batch on a rank."""
    kept: int = field(init=False)
    """Tokens on one tensor-parallel rank where sequence parallelism cuts them."""

    def __post_init__(self) -> None:
        tokens = self.par.micro_batch * (self.par.seq or 0) // self.par.cp
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "kept", tokens // self.par.tp if self.par.sp else tokens)

    def of(self, layer: int) -> Setting:
        """The setting of layer `layer`, whose attention may differ from that of others."""
        model = self.model.of(layer)
        return self if model is self.model else Setting(model, self.par)

    @property
    def eager(self) -> bool:
        """Whether kernels are plain PyTorch's, which write and keep more."""
        return self.par.kernels == "eager"

    @property
    def plain(self) -> bool:
        """Whether layers keep what PyTorch's own functions do, not what fused ones do."""
        return self.eager or self.par.saved == "plain"

    @property
    def gathered(self) -> int:
        """Bytes of an element that sequence parallelism gathers for multiplications in 8 bits; 0
        where it gathers activations: where columns, which no rank has whole, have scales of their
        own, or nothing is in 8 bits."""
        par = self.par
        narrow = (
            par.sp
            and par.tp > 1
            and par.fp8_recipe != "rowwise"
            and par.bytes.gemm < par.bytes.activation
        )
        return par.bytes.gemm if narrow else 0

    @property
    def full(self) -> int:
        """Bytes of the hidden states of a micro-batch on a rank, uncut."""
        return self.tokens * self.model.hidden * self.par.bytes.activation

    @property
    def cut(self) -> int:
        """Bytes of the hidden states of a micro-batch on a rank, cut where sequence parallelism
        cuts them."""
        return self.kept * self.model.hidden * self.par.bytes.activation

    @property
    def mask(self) -> int:
        """Bytes of a dropout mask over hidden states: one byte for each element."""
        return self.kept * self.model.hidden if self.model.dropout else 0
