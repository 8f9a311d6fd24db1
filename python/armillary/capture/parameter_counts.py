"""Parameters of a module, and which part of the model has them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor of weights."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    trained: bool
    """Whether it has a gradient."""

    @property
    def count(self) -> int:
        """Number of its elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Parameters:
    """All parameters of a module. Tensors that modules share count once."""

    tensors: tuple[Parameter, ...]
    multi_token: int = 0
    """Parameters of multi-token prediction that the module lacks, though its configuration asks for
    them. `total` is without them."""

    @classmethod
    def of(cls, module: torch.nn.Module) -> Parameters:
        """Those of a module."""
        return cls(
            tuple(
                Parameter(
                    name,
                    tuple(each.shape),
                    str(each.dtype).removeprefix("torch."),
                    each.requires_grad,
                )
                for name, each in module.named_parameters()
            )
        )

    @property
    def total(self) -> int:
        """Number of all of them."""
        return sum(each.count for each in self.tensors)

    @property
    def trained(self) -> int:
        """Number of parameters that have a gradient."""
        return sum(each.count for each in self.tensors if each.trained)

    @property
    def text(self) -> int:
        """Number of those of the language model: all but those of towers for images and sound, and
        of what joins them to it."""
        return self.total - sum(self.towers.values())

    @property
    def towers(self) -> dict[str, int]:
        """Numbers of those of other parts than the language model, by the name of the part; empty
        for a model of text alone."""
        paths = [each.name.split(".") for each in self.tensors]
        if all(_TEXT.isdisjoint(path) for path in paths):
            return {}
        found: Counter[str] = Counter()
        for path, each in zip(paths, self.tensors, strict=True):
            if _TEXT.isdisjoint(path) and path[0] not in _HEADS:
                found[next(part for part in path if part != "model")] += each.count
        return dict(found)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "total": self.total,
            "trained": self.trained,
            "text": self.text,
            "towers": self.towers,
            "multi_token_prediction": self.multi_token,
        }


_TEXT = frozenset({"language_model", "text_decoder", "text_model"})
"""Names of modules that read or write text, next to towers."""
_HEADS = ("lm_head", "text_projection")
"""Names of modules behind them."""
