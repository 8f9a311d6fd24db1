"""Kernels of captured operations, with what ranks send between them.

Here: from the operations of a block on a rank to the scripts of its passes; what is merged. Not
here: sizes on a rank (`captured_parallel.py`), what is computed again (`captured_recompute.py`).

With `kernels="fused"` kernels that only pass over tensors are one kernel between two others. It
reads what comes from elsewhere and writes what is used elsewhere, as kernels of `torch.compile` do.
With `eager` each is a kernel of its own.

Products in 8 bits have their operands cast before: inputs and parameters in the forward pass, as
they are and transposed, and gradients in the backward pass (`layer.py` has the bytes by recipe).

Source: Ansel et al. 2024 (PyTorch 2, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..capture.records import Operation
from .captured_attention import exchanged
from .captured_parallel import LocalBlock
from .captured_recompute import Again
from .layer import CASTS
from .parallelism import Parallelism
from .script import Gemm, KernelStep, Script, Scripts, Step

_WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1}


def scripts(local: LocalBlock, path: str, par: Parallelism) -> Scripts:
    """Forward and backward pass of a block, which repeats where it has a `path`."""
    forward, backward = (
        [each for each in local.block.operations if each.backward is which]
        for which in (False, True)
    )
    passes = [
        tuple(_steps(local, ours, others, path, par))
        for ours, others in ((forward, backward), (backward, forward))
    ]
    return Scripts(passes[0], passes[1], (), ())


def script_again(local: LocalBlock, again: Again, path: str, par: Parallelism) -> Script:
    """Operations that are computed again. Results that the backward pass reads stay."""
    backward = [each for each in local.block.operations if each.backward]
    return tuple(_steps(local, again.operations, backward, path, par))


def _steps(
    local: LocalBlock,
    ours: Sequence[Operation],
    others: Sequence[Operation],
    path: str,
    par: Parallelism,
) -> Iterator[Step]:
    """Kernels of one pass, and what ranks send around them. What only passes over tensors is merged
    up to the next product or collective."""
    elsewhere = {each.memory for each in local.block.saved}
    elsewhere |= {each.memory for operation in others for each in operation.reads}
    last = {each.memory: at for at, operation in enumerate(ours) for each in operation.reads}
    narrow = _Narrow.of(local, par, bool(ours) and ours[0].backward) if path else _Narrow()
    run: list[Operation] = []
    sent: set[int] = set()
    for at, each in enumerate(ours):
        before, after = local.around(each)
        before = tuple(step for step in before if id(step) not in sent)
        sent |= {id(step) for step in before}
        passes = each.kind in ("elementwise", "gather") and par.kernels == "fused"
        if before or not passes:
            yield from _merged(run, at, last, elsewhere, path)
            run = []
        yield from before
        if passes:
            run.append(each)
        elif each.kind == "attention" and par.cp > 1:
            yield from exchanged(each, par, f"{_inside(each, path)}.")
        elif each.product is not None and each.module in narrow.modules:
            yield from narrow.casts(each, path, par)
            yield _step(each, path, narrow=True)
        else:
            yield _step(each, path)
        if after:
            yield from _merged(run, at + 1, last, elsewhere, path)
            run = []
            yield from after
    yield from _merged(run, len(ours), last, elsewhere, path)


_ROUTERS = ("gate", "router")
"""Last names of modules that choose experts, whose products keep their format."""
_ALIGNED = 16
"""Sizes of products in 8 and 4 bits are multiples of this (cuBLASLt)."""


@dataclass
class _Narrow:
    """Products of a pass in 8 or 4 bits."""

    modules: frozenset[str] = frozenset()
    """Modules with such products."""
    cast: set[int] = field(default_factory=set)
    """Memory of operands that are cast already."""

    @classmethod
    def of(cls, local: LocalBlock, par: Parallelism, backward: bool) -> _Narrow:
        """The products of a block, at the beginning of a pass."""
        if par.bytes.gemm == par.bytes.activation:
            return cls()
        found = [
            each
            for each in local.block.operations
            if not each.backward and _is_narrow(each, par.bytes.activation)
        ]
        read = {x.memory for each in found for x in each.reads} if backward else set[int]()
        return cls(frozenset(each.module for each in found), read)

    def casts(self, each: Operation, path: str, par: Parallelism) -> Iterator[KernelStep]:
        """Operands that are not cast yet. In the backward pass, they are gradients: parameters and
        inputs have been cast in the forward pass."""
        matrices = [x for x in each.reads if len(x.shape) > 1 and x.memory not in self.cast]
        self.cast.update(x.memory for x in matrices)
        elements = sum(x.bytes for x in matrices) // par.bytes.activation
        moved = CASTS[par.fp8_recipe](par.bytes.activation, par.bytes.gemm) * elements
        if elements:
            yield KernelStep(f"{_name(each, path)}.cast", "elementwise", 0, moved)


def _is_narrow(each: Operation, width: int) -> bool:
    """Whether it is a product of a parameter that may have fewer bits than `width` bytes."""
    if each.product is None or each.module.rpartition(".")[2] in _ROUTERS:
        return False
    sizes = each.product
    aligned = not any(size % _ALIGNED for size in (sizes.n, sizes.k))
    formats = {_WIDTHS.get(x.dtype) for x in each.reads if x.parameter}
    return aligned and formats == {width}


_TAKES = {"embedding", "gather", "index", "index_select", "take_along_dim"}
"""Operators that read rows and give them."""


def _merged(
    run: Sequence[Operation], end: int, last: dict[int, int], elsewhere: set[int], path: str
) -> Iterator[KernelStep]:
    """One kernel for a run of operations that ends before operation `end`. The last result stays,
    as the next block may use it."""
    if not run:
        return
    given: dict[int, int] = {}
    made: dict[int, int] = {}
    moved = 0
    for each in run:
        if each.name in _TAKES:
            # Rows are read where they are, and go on in the kernel.
            moved += 0 if each.reads[0].memory in made else each.bytes // 2
            made |= {written.memory: written.bytes for written in each.writes}
            continue
        if each.kind == "gather":
            # Rows are found while the kernel runs: they are read and written as they are.
            moved += each.bytes
            made.update({written.memory: 0 for written in each.writes})
            continue
        for buffer in each.reads:
            if buffer.memory not in made:
                given[buffer.memory] = max(given.get(buffer.memory, 0), buffer.bytes)
        for buffer in each.writes:
            made[buffer.memory] = max(made.get(buffer.memory, 0), buffer.bytes)
    final = {each.memory for each in run[-1].writes}
    stays = [
        size
        for memory, size in made.items()
        if memory in elsewhere or memory in final or last.get(memory, -1) >= end
    ]
    kind = "normalization" if any(_is_norm(each) for each in run) else "elementwise"
    yield KernelStep(_name(run[0], path), kind, 0, moved + sum(given.values()) + sum(stays))


def _step(each: Operation, path: str, narrow: bool = False) -> Step:
    name, width = _name(each, path), _WIDTHS.get(each.reads[0].dtype, 4) if each.reads else 4
    width = 0 if narrow else width
    if each.product is not None:
        sizes = each.product
        grouped = each.kind == "grouped_matmul"
        return Gemm(name, sizes.m, sizes.n, sizes.k, sizes.batch, width, grouped)
    return KernelStep(name, _kernel(each), each.flops, each.bytes)


def _kernel(each: Operation) -> str:
    """The kind of a kernel, as platforms know it."""
    if each.kind == "attention":
        name = each.name.removesuffix(".backward")
        return name if name == "attention" else "unmasked_attention"
    if each.kind in ("convolution", "scan"):
        return {"scan": "attention"}.get(each.kind, each.kind)
    if _is_norm(each):
        return "normalization"
    return "embedding" if each.name.startswith("embedding") else "elementwise"


def _is_norm(each: Operation) -> bool:
    return "norm" in each.module.rpartition(".")[2].lower() or "_norm" in each.name


def _name(each: Operation, path: str) -> str:
    return f"{_inside(each, path)}.{each.name}{'.grad' if each.backward else ''}"


def _inside(each: Operation, path: str) -> str:
    return each.module.removeprefix(path).strip(".") or "model"
