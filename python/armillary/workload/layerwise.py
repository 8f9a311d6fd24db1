"""Training loops that go layer by layer: forward, then backward with overlapped reductions of weight gradients.

Not here: what a layer computes (`cnn`), embeddings (`dlrm`), pipelines and micro-batches (`transformer`).

Model, for the layers 1 ... L of one pass (an iteration), compute in this order, each after the one before:

    forward           l = 1 ... L    after the weights of l are updated (its reduction of the pass before has ended)
    weight gradient   l = L ... 1    its exchange starts at once and overlaps with everything after it
    input gradient    l = L ... 2    of the layer 1 nobody needs one

An exchange after `forward` or `input_gradient` blocks: the next compute waits for it. So data parallelism exchanges
weight gradients only, model parallelism activations and input gradients, hybrids all three (ASTRA-SIM, ISPASS 2020,
Table I and section IV-A). Residual branches run one after another, as one NPU does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .program import Program


@dataclass(frozen=True, slots=True)
class Gemm:
    """`batch` times (m x k) times (k x n)."""

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def operations(self) -> int:
        """Floating-point operations, two for each multiply-and-add."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Touch:
    """Work bound by memory: `operations` over `bytes` read and written."""

    operations: int
    bytes: int
    kernel: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective: `bytes` per NPU among the ranks of `group` (empty: all)."""

    kind: str
    bytes: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """One pass of one layer: what is computed, by shape or as a recorded time, and what is exchanged after it."""

    gemm: Gemm | None = None
    duration_ps: int = 0
    touch: Touch | None = None
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the loop. A missing gradient takes no time and exchanges nothing."""

    name: str
    forward: Work
    input_gradient: Work | None = None
    weight_gradient: Work | None = None
    update_ps: int = 0
    """From the end of the weight gradient's exchange until the new weights are there; off the NPU."""
    width: int = 2
    """Bytes of an element of the matrices."""


def train(program: Program, layers: Sequence[Layer], passes: int) -> None:
    """Adds `passes` iterations over `layers` to `program`."""
    loop = _Loop(program)
    for _ in range(passes):
        for index, layer in enumerate(layers):
            loop.forward(index, layer)
        for index in range(len(layers) - 1, -1, -1):
            loop.backward(index, layers[index])


class _Loop:
    """Where the loop stands: the node that the next compute follows, and the last update of each layer's weights."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.at: list[int] = []
        self.updated: dict[int, int] = {}

    def forward(self, index: int, layer: Layer) -> None:
        waits = [self.updated[index]] if index in self.updated else []
        self._compute(layer, "forward", layer.forward, waits)
        self._block(layer, "forward", layer.forward)

    def backward(self, index: int, layer: Layer) -> None:
        if layer.weight_gradient is not None:
            self._compute(layer, "weight_gradient", layer.weight_gradient, [])
            self._reduce(index, layer, layer.weight_gradient)
        if layer.input_gradient is not None and index > 0:
            self._compute(layer, "input_gradient", layer.input_gradient, [])
            self._block(layer, "input_gradient", layer.input_gradient)

    def _compute(self, layer: Layer, step: str, work: Work, waits: list[int]) -> None:
        name, deps = f"{layer.name}.{step}", self.at + waits
        if work.gemm is not None:
            shape = work.gemm
            self.at = [
                self.program.gemm(name, deps, m=shape.m, n=shape.n, k=shape.k, batch=shape.batch, width=layer.width)
            ]
        else:
            self.at = [self.program.compute(name, deps, duration_ps=work.duration_ps)]
        if work.touch is not None:
            self.at = [self._touch(f"{name}.{work.touch.kernel}", work.touch)]

    def _touch(self, name: str, work: Touch) -> int:
        add = self.program.compute
        return add(name, self.at, operations=work.operations, bytes=work.bytes, kernel=work.kernel)

    def _exchange(self, layer: Layer, step: str, work: Work) -> int | None:
        wanted = work.exchange
        if wanted is None:
            return None
        name = f"{layer.name}.{step}.{wanted.kind}"
        return self.program.collective(name, self.at, wanted.kind, wanted.bytes, wanted.group)

    def _block(self, layer: Layer, step: str, work: Work) -> None:
        node = self._exchange(layer, step, work)
        self.at = self.at if node is None else [node]

    def _reduce(self, index: int, layer: Layer, work: Work) -> None:
        node = self._exchange(layer, "weight_gradient", work)
        if node is not None and layer.update_ps:
            name = f"{layer.name}.weight_gradient.update"
            node = self.program.compute(name, [node], duration_ps=layer.update_ps, host=True)
        if node is not None:
            self.updated[index] = node
