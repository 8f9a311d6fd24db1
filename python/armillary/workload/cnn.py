"""Convolutional networks, trained data- and model-parallel: layers counted from their description,
each a matrix multiplication.

Not here: the training loop (`layerwise`), what NPUs that share layers exchange (`cnn_exchanges`),
the descriptions (`models/*.yml`), transformers.

Model: a convolution of `c` input and `o` output channels, kernel `r`, in `g` groups, that gives `h`
x `w` per channel, for `b` samples is the product of a (b h w) x (r r c / g) and a (r r c / g) x (o
/ g) matrix, `g` times (im2col; Chellapilla et al., 2006). Its gradients have the same number of
operations, so a step is three times the forward pass less the first layer's input gradient.

Sources: He et al., "Deep Residual Learning", CVPR 2016 (ResNet); parameter counts as torchvision
prints them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..errors import ImpossibleError, InputError, Problem
from ..model import precision
from ..model.cnn import Convolution, ConvolutionalNetwork, DenseLayer, network
from ..model.files import Model, load_model
from ..model.gemm import Gemm
from ..model.limits import LARGEST, check_counts
from ..model.precision import BYTES, Precision
from ..option_fields import read, takes_options
from . import buckets
from .cnn_exchanges import DATA, MODEL, Tensors, exchanged
from .layerwise import LayerExchange, LayerWork, Touch, TrainedLayer, mesh_problems, train
from .program import Program
from .summary import Memory, RankClass, Summary
from .workload import Workload

Optimizer = Literal["sgd", "momentum", "adam"]

Kernels = Literal["multiplications", "fused", "eager"]
"""How layers are cut into kernels: as matrix multiplications, or as libraries do, activations fused
or on their own."""

KERNELS = get_args(Kernels)

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Optimizer -> 32-bit values it keeps for each parameter."""


@dataclass(frozen=True, slots=True)
class Style:
    """How layers become kernels. Widths are bytes of an element: weights and activations, reduced
    gradients."""

    width: int = 4
    gradient_width: int = 4
    elementwise: bool = True
    kernels: Kernels = "multiplications"
    repack: bool = False
    optimizer: Optimizer = "momentum"


def layers(
    net: ConvolutionalNetwork, batch: int, style: Style = Style(), group: str = ""
) -> list[TrainedLayer]:
    """The layers of `net` for the training loop: `batch` samples on each NPU, gradients reduced in
    `group`."""
    cut = _multiplications if style.kernels == "multiplications" else _kernels
    return [cut(layer, batch, style, group) for layer in net.layers]


def _multiplications(
    layer: Convolution | DenseLayer, batch: int, style: Style, group: str
) -> TrainedLayer:
    """Matrix multiplications; normalisation or activation moves 2 tensors forward and 3
    backward."""
    forward = layer.gemm(batch)
    elements = batch * layer.output_elements
    kernel = "normalization" if layer.norm else "elementwise"
    touches = [
        (Touch(elements, many * elements * style.width, kernel),) if style.elementwise else ()
        for many in (2, 3)
    ]
    return TrainedLayer(
        layer.name,
        LayerWork(forward, touches=touches[0]),
        LayerWork(Gemm(forward.m, forward.k, forward.n, forward.batch), touches=touches[1]),
        LayerWork(
            Gemm(forward.k, forward.n, forward.m, forward.batch),
            exchange=_reduced(layer, style, group),
        ),
        width=style.width,
        kept=batch * _kept(layer) * style.width,
    )


def _kernels(layer: Convolution | DenseLayer, batch: int, style: Style, group: str) -> TrainedLayer:
    """The kernels that libraries run: convolutions on their own tensors, then what normalises, adds
    and activates."""
    shape = layer.gemm(batch)
    direct = _convolution(layer, batch, style) if isinstance(layer, Convolution) else None
    forward, backward = (
        tuple(
            Touch(elements, elements * style.width, kernel)
            for kernel, elements in pass_
            if elements
        )
        for pass_ in _behind(layer, batch, style)
    )
    return TrainedLayer(
        layer.name,
        LayerWork(shape, kernel=direct, touches=forward),
        # The gradient comes back through activation and normalisation before the convolution's own
        # gradients.
        LayerWork(Gemm(shape.m, shape.k, shape.n, shape.batch), kernel=direct),
        LayerWork(
            Gemm(shape.k, shape.n, shape.m, shape.batch),
            kernel=direct,
            before=backward,
            exchange=_reduced(layer, style, group),
        ),
        update=_update(layer, style),
        width=style.width,
        kept=batch * _kept(layer) * style.width,
    )


def _convolution(layer: Convolution, batch: int, style: Style) -> Touch:
    """Any pass of a convolution: two of its three tensors are read, one is written."""
    images = batch * (layer.input_elements + layer.output_elements)
    weights = layer.kernel**2 * layer.inputs // layer.groups * layer.outputs
    moved = images * (3 if style.repack else 1) + weights
    return Touch(layer.gemm(batch).operations, moved * style.width, "convolution")


def _behind(
    layer: Convolution | DenseLayer, batch: int, style: Style
) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Kernels behind a convolution, forward and backward, and elements each moves.

    A normalisation reads its input twice (statistics, then values) and writes once; backward it
    reads input and gradient twice. Activation and addition on their own read and write everything
    again; fused, an addition reads the shortcut, and its activation's gradient needs what was
    written."""
    elements = batch * layer.output_elements
    joins, active, norm = int(layer.joins), int(layer.activates), int(layer.norm)
    if style.kernels == "fused":
        moved = (norm * 3 + joins, norm * (5 + joins) or active * 3)
        return tuple(((_kind(layer), many * elements),) for many in moved)
    forward = (
        ("normalization", norm * 3 * elements),
        ("elementwise", (2 * active + 3 * joins) * elements),
    )
    backward = (
        ("elementwise", (3 * active + 3 * joins) * elements),
        ("normalization", norm * 5 * elements),
    )
    return forward, backward


def _kind(layer: Convolution | DenseLayer) -> str:
    return "normalization" if layer.norm else "elementwise"


def _reduced(layer: Convolution | DenseLayer, style: Style, group: str) -> LayerExchange:
    return LayerExchange("all_reduce", layer.parameters * style.gradient_width, group)


def _update(layer: Convolution | DenseLayer, style: Style) -> Touch:
    """The optimizer: weights and state of 4 bytes read and written, the gradient read, a narrow
    copy written."""
    states = OPTIMIZERS[style.optimizer]
    narrow = style.width if style.width < 4 else 0
    moved = 8 * (1 + states) + style.gradient_width + narrow
    return Touch(2 * (1 + states) * layer.parameters, moved * layer.parameters, "optimizer")


def operations(net: ConvolutionalNetwork, batch: int) -> int:
    """Floating-point operations of the matrices of one iteration of `batch` samples: forward and
    both gradients."""
    return 6 * batch * net.multiplications - net.layers[0].gemm(batch).operations


def _kept(layer: Convolution | DenseLayer) -> int:
    """Elements of a sample that the backward pass needs: the input, and the output where a
    normalisation does."""
    return layer.input_elements + layer.output_elements * int(layer.norm)


def memory(
    net: ConvolutionalNetwork, batch: int, width: int, gradient_width: int, optimizer: str
) -> Memory:
    """Bytes on an NPU. Activations: the input of every layer, and its output where a normalisation
    needs it again."""
    kept = sum(_kept(layer) for layer in net.layers)
    state = net.parameters * 4 * OPTIMIZERS[optimizer]
    return Memory(
        net.parameters * width, net.parameters * gradient_width, state, batch * kept * width
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `cnn`."""

    dp: int
    """Parts of the batch, each of one NPU or of the mp NPUs that share it."""
    mp: int = 1
    """NPUs that share each layer: each makes a part of its output channels."""
    local_batch: int = 32
    """Samples of a step on an NPU; the mp NPUs that share layers have the same ones."""
    passes: int = 1
    """Iterations."""
    overlap: bool = True
    """Computation goes on while weight gradients are exchanged."""
    bucket_mb: float | None = None
    """Weight gradients are all-reduced in buckets of at most this many MB, which layers share.
    Default: each layer's on their own."""
    precision: Precision = "fp32"
    """Numbers of weights and activations."""
    gradient_precision: Precision = "fp32"
    """Numbers of the gradients that are all-reduced."""
    optimizer: Optimizer = "momentum"
    """Optimizer that updates the weights."""
    elementwise: bool = True
    """With kernels multiplications: normalisations, activations and additions take time."""
    kernels: Kernels = "multiplications"
    """multiplications: convolutions alone, as matrix multiplications; fused, eager: the kernels of
    libraries (docs/models/cnn.md)."""
    repack: bool = False
    """With kernels fused and eager: convolutions rewrite their tensors in another layout before
    and after, as tensor cores need for images stored channels first."""


@takes_options(Options, model="resnet-50")
def cnn(model: str | Model = "resnet-50", **options: object) -> Workload:
    """Iterations of a convolutional network, data-parallel, model-parallel or both.

    `model` is a preset, a file or the result of `load_model`. The options are the fields of
    `Options`. With `kernels` `multiplications` the optimizer counts in memory only, and without
    `elementwise` nothing but convolutions takes time, as in the ISPASS 2020 paper. `fused` (XLA,
    TorchInductor, cuDNN) and `eager` are the kernels that libraries run: convolutions that read and
    write their own tensors, normalisations, the optimizer; additions and activations are within the
    normalisation (`fused`) or kernels of their own (`eager`). Raises `InputError` listing every
    problem."""
    found = load_model(model)
    chosen = read(Options, found.name, options)
    net = network(found)
    _check(net, chosen)
    batch, width = chosen.local_batch, BYTES[chosen.precision]
    reduced = BYTES[chosen.gradient_precision]
    style = Style(
        width, reduced, chosen.elementwise, chosen.kernels, chosen.repack, chosen.optimizer
    )
    program, part = Program(), net.part(chosen.mp)
    train(program, _trained(net, chosen, style), chosen.passes, chosen.overlap, chosen.bucket_mb)
    used, npus = memory(part, batch, width, reduced, chosen.optimizer), chosen.dp * chosen.mp
    summary = summarize(
        net.name, program, npus, chosen.passes, batch * chosen.dp, net.parameters, used
    )
    summary = replace(summary, notes=(*found.notes, *_assumed(chosen)))
    axes, groups = [("dp", chosen.dp)], dict[str, list[str]]()
    if chosen.mp > 1:
        axes = [(MODEL, chosen.mp), (DATA, chosen.dp)]
        groups = {name: [name] for name, _ in axes}
    return Workload.mesh(net.name, axes, groups, [], [program], summary, summary.notes)


def _trained(net: ConvolutionalNetwork, chosen: Options, style: Style) -> list[TrainedLayer]:
    """The layers on an NPU, with the exchanges that its parallelism has."""
    batch, mp = chosen.local_batch, chosen.mp
    if mp == 1:
        return layers(net, batch, style)
    each = batch * style.width
    tensors = [
        Tensors(each * layer.input_elements, each * layer.output_elements, not layer.activates)
        for layer in net.layers
    ]
    return exchanged(layers(net.part(mp), batch, style, DATA), tensors, mp)


def _assumed(chosen: Options) -> tuple[str, ...]:
    """Warnings of every run: parts that take no time, and options without effect."""
    alone = chosen.kernels == "multiplications"
    notes = []
    if chosen.mp > 1:
        notes.append(
            f"mp {chosen.mp}: layers are cut by output channels; outputs are all-gathered, and "
            "gradients of inputs reduce-scattered"
        )
    if alone:
        notes.append("kernels multiplications: the optimizer takes memory, and no time")
    if alone and not chosen.elementwise:
        notes.append("elementwise False: nothing but convolutions takes time")
    if alone and chosen.repack:
        notes.append("repack has no effect with kernels multiplications")
    if not alone and not chosen.elementwise:
        notes.append(f"elementwise has no effect with kernels {chosen.kernels}")
    return tuple(notes)


def summarize(
    name: str, program: Program, npus: int, passes: int, batch: int, parameters: int, used: Memory
) -> Summary:
    """The summary of `npus` equal ranks: everything of one of the `passes`."""
    volumes = tuple(
        replace(volume, count=volume.count // passes, bytes=volume.bytes // passes)
        for volume in program.volumes
    )
    done = program.operations // passes
    ranks = RankClass("all", npus, done, volumes, used)
    flops = done * npus
    return Summary(
        name, "cnn", npus, parameters, parameters, batch, flops, flops, 0.0, (ranks,), ()
    )


def _check(net: ConvolutionalNetwork, chosen: Options) -> None:
    names = ("dp", "mp", "local_batch", "passes")
    counts = {name: getattr(chosen, name) for name in names}
    positions = max(layer.gemm(1).m for layer in net.layers)
    problems = check_counts(counts, local_batch=LARGEST // positions)
    problems += buckets.check(chosen.bucket_mb)
    problems += precision.problems(
        precision=chosen.precision, gradient_precision=chosen.gradient_precision
    )
    for name, allowed in (("optimizer", tuple(OPTIMIZERS)), ("kernels", KERNELS)):
        value = getattr(chosen, name)
        if value not in allowed:
            problems.append(Problem("", name, f"unknown value {value!r}", ", ".join(allowed)))
    if problems:
        raise InputError(problems)
    impossible = mesh_problems(chosen.dp, chosen.mp) + _uncut(net, chosen.mp)
    if impossible:
        raise ImpossibleError(impossible)


def _uncut(net: ConvolutionalNetwork, mp: int) -> list[Problem]:
    """Layers that can't be cut."""
    grouped = [x for x in net.layers if isinstance(x, Convolution) and x.groups > 1]
    if mp > 1 and grouped:
        said = f"a convolution in groups is not cut: {grouped[0].name} has {grouped[0].groups}"
        return [Problem("", "mp", said, "1")]
    ways = math.gcd(*(layer.outputs for layer in net.layers))
    uneven = [layer for layer in net.layers if layer.outputs % mp]
    if not uneven:
        return []
    near = [each for each in range(1, ways + 1) if ways % each == 0]
    said = f"{mp} does not divide the {uneven[0].outputs} output channels of {uneven[0].name}"
    return [Problem("", "mp", said, ", ".join(map(str, near)))]
