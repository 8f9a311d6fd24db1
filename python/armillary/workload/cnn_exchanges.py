"""Messages between NPUs that share the layers of a convolutional network.

Not here: the layers (`cnn.py`), the training loop (`layerwise.py`).

Model parallelism cuts the output channels of each layer. What each of the `mp` NPUs makes of a
layer's output is all-gathered, as it is the input of the next layer: after pooling, which each NPU
does for its own channels. Each NPU has a part of the sum of an input's gradient, which is
reduce-scattered to the NPUs that made the input's channels. A shortcut with a convolution of its
own takes the input of its block, which is there already. Its output is added to the block's before
that is gathered, and its input's gradient to that of the block's first layer before that is
scattered. So it adds no exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from .layerwise import LayerExchange, TrainedLayer

MODEL, DATA = "model", "data"
"""Axes and groups of NPUs that share layers, and of those that share the batch."""


class Tensors(NamedTuple):
    """Input and output of a layer: bytes of all channels and samples."""

    inputs: int
    outputs: int
    shortcut: bool
    """Whether it stands next to the layers before it."""


def exchanged(
    layers: Sequence[TrainedLayer], tensors: Sequence[Tensors], mp: int
) -> list[TrainedLayer]:
    """The layers on one of `mp` NPUs that share them, with what these exchange."""
    after = [*tensors[1:], None]
    return [_layer(*each, mp) for each in zip(layers, tensors, after, strict=True)]


def _layer(layer: TrainedLayer, own: Tensors, after: Tensors | None, mp: int) -> TrainedLayer:
    if after is None or not after.shortcut:
        whole = own.outputs if after is None else after.inputs
        gathered = LayerExchange("all_gather", whole // mp, MODEL)
        layer = replace(layer, forward=replace(layer.forward, exchange=gathered))
    if layer.input_gradient and not own.shortcut:
        scattered = LayerExchange("reduce_scatter", own.inputs, MODEL)
        layer = replace(layer, input_gradient=replace(layer.input_gradient, exchange=scattered))
    return layer
