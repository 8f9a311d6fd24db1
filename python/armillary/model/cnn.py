"""Parts of a convolutional network: its layers with weights, and the shape of the data at each.

Not here: the training flows (`workload/cnn.py`), the presets (`models/*.yml`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from ..declared import Allowed, Source, Within
from ..documents import Path_
from .files import Model, parse_family
from .gemm import Gemm
from .limits import LARGEST, Size, Zero


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution with square kernel; `height` and `width` are those of its output."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    groups: int
    bias: bool
    norm: bool
    height: int
    width: int
    input_elements: int
    """Elements of its input, a sample."""
    joins: bool = False
    """The last of a residual block: the shortcut is added to its output."""
    activates: bool = True
    """An activation follows; none does in a shortcut."""

    @property
    def parameters(self) -> int:
        """Weights, bias, and the scale and shift of the batch normalisation behind it."""
        weights = self.kernel**2 * self.inputs // self.groups * self.outputs
        return weights + self.outputs * (int(self.bias) + 2 * int(self.norm))

    @property
    def output_elements(self) -> int:
        """Elements of its output, a sample."""
        return self.outputs * self.height * self.width

    def gemm(self, batch: int) -> Gemm:
        """The forward pass of `batch` samples."""
        depth = self.kernel**2 * self.inputs // self.groups
        return Gemm(
            batch * self.height * self.width, self.outputs // self.groups, depth, self.groups
        )


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """A fully connected layer."""

    name: str
    inputs: int
    outputs: int
    bias: bool
    norm: bool = False
    joins: bool = False
    activates: bool = True

    @property
    def parameters(self) -> int:
        """Weights and bias."""
        return self.inputs * self.outputs + self.outputs * int(self.bias)

    @property
    def input_elements(self) -> int:
        """Elements of its input, a sample."""
        return self.inputs

    @property
    def output_elements(self) -> int:
        """Elements of its output, a sample."""
        return self.outputs

    def gemm(self, batch: int) -> Gemm:
        """The forward pass of `batch` samples."""
        return Gemm(batch, self.outputs, self.inputs)


@dataclass(frozen=True, slots=True)
class ConvolutionalNetwork:
    """A network as the layers that have weights, in the order they run."""

    name: str
    layers: tuple[Convolution | DenseLayer, ...]

    @property
    def parameters(self) -> int:
        """All of them, batch normalisation included."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiplications(self) -> int:
        """Multiply-and-adds of the forward pass of one sample."""
        return sum(layer.gemm(1).operations for layer in self.layers) // 2

    def part(self, mp: int) -> ConvolutionalNetwork:
        """The part of one of `mp` NPUs: some of the output channels of each layer."""
        cut = tuple(replace(layer, outputs=layer.outputs // mp) for layer in self.layers)
        return replace(self, layers=cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A convolution in a model file. Without `bias` or `norm`, it has the network's."""

    out: Size
    kernel: Size
    groups: Size = 1
    stride: Size = 1
    padding: Zero = 0
    bias: bool | None = None
    norm: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conv(_Kernel):
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inner(_Kernel):
    """A convolution of a residual block; a `strided` one has the block's stride."""

    strided: bool = False


@dataclass(frozen=True, slots=True)
class _Divided:
    """`out` x `out` windows that divide the image among them."""

    out: Size


@dataclass(frozen=True, slots=True)
class _Window:
    """A window that slides."""

    kernel: Size
    stride: Size | None = None
    padding: Zero = 0


@dataclass(frozen=True, slots=True)
class _Linear:
    out: Size
    name: str = ""
    bias: bool = True


@dataclass(frozen=True, slots=True)
class _Residual:
    """Blocks of convolutions with a shortcut around them."""

    name: str
    convs: Annotated[tuple[_Inner, ...], Within(1, 1000), Allowed("a list of mappings")]
    stride: Size = 1
    repeat: Annotated[int, Within(1, 10_000)] = 1


@dataclass(frozen=True, slots=True)
class _OfConv:
    conv: _Conv


@dataclass(frozen=True, slots=True)
class _OfPool:
    pool: _Divided | _Window


@dataclass(frozen=True, slots=True)
class _OfLinear:
    linear: _Linear


@dataclass(frozen=True, slots=True)
class _OfResidual:
    residual: _Residual


_Entry = _OfConv | _OfPool | _OfLinear | _OfResidual


@dataclass(frozen=True, slots=True)
class _File:
    """Fields of a model file."""

    input_: tuple[Size, Size, Size]
    layers: Annotated[tuple[_Entry, ...], Within(1, 1_000_000), Allowed("a list of mappings")]
    bias: bool = False
    norm: bool = True


def network(model: Model) -> ConvolutionalNetwork:
    """The network that a model file describes. Raises `InputError` listing every problem."""
    walk = _Walk(model.document(), parse_family(model, "cnn", _File))
    for index, entry in enumerate(walk.file.layers):
        walk.entry(("layers", index), entry)
    for layer in walk.layers:
        shape = layer.gemm(1)
        if max(shape.m, shape.n, shape.k) > LARGEST:
            walk.source.fault(
                ("layers",),
                f"{layer.name} multiplies matrices of {shape.m}, {shape.n} and {shape.k}",
                f"up to {LARGEST}",
            )
    if not walk.layers:
        walk.source.fault(("layers",), "no layer has weights", "at least one conv or linear")
    walk.source.finish()
    return ConvolutionalNetwork(model.name, tuple(walk.layers))


class _Walk:
    """Goes through the description with the shape the data has there: channels, height, width."""

    def __init__(self, source: Source, file: _File) -> None:
        self.source, self.file = source, file
        self.shape: tuple[int, ...] = file.input_
        self.layers: list[Convolution | DenseLayer] = []

    def entry(self, path: Path_, entry: _Entry) -> None:
        match entry:
            case _OfConv(conv):
                name = conv.name or f"conv{len(self.layers) + 1}"
                self.conv((*path, "conv"), conv, name, conv.stride)
            case _OfPool(pool):
                self.pool((*path, "pool"), pool)
            case _OfLinear(linear):
                self.linear(linear)
            case _OfResidual(residual):
                for block in range(residual.repeat):
                    stride = residual.stride if block == 0 else 1
                    name = f"{residual.name}.{block}"
                    self.block((*path, "residual"), residual, name, stride)

    def conv(self, path: Path_, said: _Kernel, name: str, stride: int) -> None:
        """Adds a convolution."""
        inputs, elements = self.shape[0], math.prod(self.shape)
        height, width = self._slide(path, said.kernel, stride, said.padding)
        if inputs % said.groups or said.out % said.groups:
            self.source.fault(
                (*path, "groups"),
                f"{said.groups} groups don't divide both {inputs} and {said.out} channels",
                "a common divisor",
            )
            return
        bias = self.file.bias if said.bias is None else said.bias
        norm = self.file.norm if said.norm is None else said.norm
        kernel, groups = said.kernel, said.groups
        self.layers.append(
            Convolution(name, inputs, said.out, kernel, groups, bias, norm, height, width, elements)
        )
        self.shape = (said.out, height, width)

    def pool(self, path: Path_, said: _Divided | _Window) -> None:
        """A pooling layer."""
        if isinstance(said, _Divided):
            sides = (said.out, said.out)
        else:
            stride = said.kernel if said.stride is None else said.stride
            sides = self._slide(path, said.kernel, stride, said.padding)
        self.shape = (self.shape[0], *sides)

    def linear(self, said: _Linear) -> None:
        """A fully connected layer over everything there is."""
        name = said.name or f"fc{len(self.layers) + 1}"
        self.layers.append(DenseLayer(name, math.prod(self.shape), said.out, said.bias))
        self.shape = (said.out, 1, 1)

    def block(self, path: Path_, said: _Residual, name: str, stride: int) -> None:
        """A block with its shortcut, which is projected where the shape changes."""
        before = self.shape
        for index, conv in enumerate(said.convs):
            own = conv.stride * (stride if conv.strided else 1)
            self.conv((*path, "convs", index), conv, f"{name}.conv{index + 1}", own)
        after = self.shape
        if self.layers and isinstance(self.layers[-1], Convolution):
            self.layers[-1] = replace(self.layers[-1], joins=True)
        if before != after:
            self.shape = before
            self.conv(path, _Kernel(out=after[0], kernel=1), f"{name}.downsample", stride)
            if isinstance(self.layers[-1], Convolution):
                self.layers[-1] = replace(self.layers[-1], activates=False)
            if self.shape != after:
                self.source.fault(
                    (*path, "stride"),
                    f"the branch gives {after}, the shortcut {self.shape}",
                    "`strided` on one convolution",
                )
            self.shape = after

    def _slide(self, path: Path_, kernel: int, stride: int, padding: int) -> tuple[int, int]:
        sides = [(side + 2 * padding - kernel) // stride + 1 for side in self.shape[1:]]
        if min(sides) < 1:
            self.source.fault(
                (*path, "kernel"),
                f"{kernel} is larger than the padded image of {self.shape[1:]}",
                f"a kernel up to {min(self.shape[1:]) + 2 * padding}",
            )
        return max(sides[0], 1), max(sides[1], 1)
