"""Numbers that kernels of a GPU get, with the bits of `train/crates/embedding`: keys of random
numbers, and those of optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .optimizers import AdaGrad, Adam, Lamb, Optimizer, RowWiseAdaGrad, Sgd

_RULES: dict[type[Optimizer], int] = {Sgd: 0, AdaGrad: 1, RowWiseAdaGrad: 2, Adam: 3, Lamb: 4}
WORD = 2**64 - 1


def mixed(word: int) -> int:
    """`mix` of `train/crates/embedding/src/random.rs`."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & WORD
    return word ^ (word >> 31)


def named(seed: int, name: str) -> int:
    """`named` of `train/crates/embedding/src/random.rs`."""
    word = mixed(seed ^ 0x9E3779B97F4A7C15)
    for byte in name.encode():
        word = mixed(word ^ byte)
    return word


def signed(word: int) -> int:
    """A 64-bit word as the int64 with its bits."""
    return word - 2**64 if word >> 63 else word


def _power(base: float, exponent: int) -> float:
    """`f64::powi`: squares, in the order of the exponent's bits."""
    found = 1.0
    while True:
        if exponent & 1:
            found *= base
        exponent >>= 1
        if not exponent:
            return found
        base *= base


def constants(of: Optimizer, learning_rate: float, step: int) -> tuple[list[float], dict[str, Any]]:
    """The numbers of an optimizer in a step, rounded to float32 as in `train/crates/embedding`, and
    its choices."""
    one = np.float32(1)
    rate, decay = np.float32(learning_rate), np.float32(of.weight_decay)
    beta1, beta2 = np.float32(getattr(of, "beta1", 0)), np.float32(getattr(of, "beta2", 0))
    step = min(step, 1 << 30)
    corrections = [np.float32(1 - _power(float(beta), step)) for beta in (beta1, beta2)]
    numbers = [
        rate,
        decay,
        one - rate * decay,
        of.clip_value,
        of.clip_norm,
        np.float32(getattr(of, "eps", 0)),
        beta1,
        one - beta1,
        beta2,
        one - beta2,
        corrections[0],
        np.sqrt(corrections[1]),
    ]
    decays = of.weight_decay != 0
    return [float(number) for number in numbers], {
        "RULE": _RULES[type(of)],
        "CLIP_VALUE": of.clip_value < np.inf,
        "CLIP_NORM": of.clip_norm < np.inf,
        "DECAY": decays and not of.decoupled,
        "KEEP": decays and of.decoupled,
    }
