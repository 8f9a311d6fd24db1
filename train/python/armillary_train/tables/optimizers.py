"""Settings of the optimizers that are fused with the backward pass of embedding tables. Only rows
of the batch change, each once, by the sum of its gradients. Needs no torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from armillary.errors import InputError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Common part of all optimizers. Gradients are clipped first, then decay is added."""

    rule: ClassVar[str]
    """Name of the rule."""
    state: ClassVar[tuple[str, ...]] = ()
    """Names of the state that the optimizer keeps of each row."""
    by_row: ClassVar[bool] = False
    """Whether the state is a number for each row, not for each element."""

    learning_rate: float = 0.01
    weight_decay: float = 0.0
    """This share of a row is added to its gradient."""
    decoupled: bool = False
    """Whether decay is taken from the row instead, times the learning rate (as in AdamW)."""
    clip_value: float = math.inf
    """Largest absolute value of an element of a row's gradient."""
    clip_norm: float = math.inf
    """Largest Euclidean length of a row's gradient."""

    def __post_init__(self) -> None:
        """Raises `InputError` naming each number that is out of range."""
        problems = [
            Problem("", f"{type(self).__name__}: {name}", f"{value} is out of range", allowed)
            for name, value in asdict(self).items()
            for (fits, allowed) in [_range(name, value)]
            if not fits
        ]
        if problems:
            raise InputError(problems)

    def settings(self) -> dict[str, Any]:
        """The settings as the native engine reads them."""
        return {"rule": self.rule, **asdict(self)}


def _range(name: str, value: float) -> tuple[bool, str]:
    """Whether a number fits, and what is allowed."""
    if name.startswith("beta"):
        return 0 <= value < 1, "a number from 0 to below 1"
    if name.startswith("clip"):
        return value > 0, "a number above 0"
    return 0 <= value < math.inf, "a finite number from 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd(Optimizer):
    """`w -= lr * g`, as `torch.optim.SGD`."""

    rule: ClassVar[str] = "sgd"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaGrad(Optimizer):
    """`sum += g ** 2; w -= lr * g / (sqrt(sum) + eps)`, as `torch.optim.Adagrad`. One `sum` for
    each element (Duchi et al. 2011)."""

    rule: ClassVar[str] = "adagrad"
    state: ClassVar[tuple[str, ...]] = ("sum",)
    eps: float = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWiseAdaGrad(Optimizer):
    """AdaGrad with one `sum` for each row, which grows by the mean of the row's `g ** 2` (Mudigere
    et al. 2022, section 4.1.2)."""

    rule: ClassVar[str] = "row_wise_adagrad"
    state: ClassVar[tuple[str, ...]] = ("sum",)
    by_row: ClassVar[bool] = True
    eps: float = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Optimizer):
    """The arithmetic of `torch.optim.Adam` (Kingma and Ba 2015), on rows of the batch only: means
    and rows change only where the batch has gradients. `torch.optim.SparseAdam` changes the same
    rows, but its `eps` weighs `1 / sqrt(1 - beta2 ** step)` times more."""

    rule: ClassVar[str] = "adam"
    state: ClassVar[tuple[str, ...]] = ("mean", "square")
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Lamb(Adam):
    """Adam's step, scaled to the length of the row (You et al. 2020; a layer is a row here)."""

    rule: ClassVar[str] = "lamb"
    eps: float = 1e-6
