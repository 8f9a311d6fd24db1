"""Mixtures of experts: Mixtral, DeepSeek-V3 and their like.

Here: the entry point. Not here: what expert layers do (`experts.py`), everything shared with dense
decoders (`transformer.py`)."""

from __future__ import annotations

import os

from ..model.files import Model, load_model
from ..option_fields import takes_options
from .parallelism import FRAMEWORK_KEYS, Parallelism
from .transformer import generate
from .workload import Workload


@takes_options(Parallelism, *FRAMEWORK_KEYS)
def moe(model: str | os.PathLike[str] | Model, **options: object) -> Workload:
    """One training step of the mixture of experts `model`: a preset, a model file, or a Hugging
    Face `config.json`.

    `moe("mixtral-8x7b", tp=2, ep=8, dp=8)`. As `transformer`, with the groups `ep` (ranks that
    share out the experts) and `edp` (ranks with the same experts); with `ep_node`, `ep_node` (those
    of `ep` in a node) and `ep_nodes` (those with the same place in their nodes). Raises
    `InputError` listing every problem."""
    return generate(load_model(model), "moe", options)
