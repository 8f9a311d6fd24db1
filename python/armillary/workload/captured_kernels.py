"""Kernels of captured operations, with what ranks send between them.

Here: from the operations of a block on a rank to the scripts of its passes; what is merged. Not
here: sizes on a rank (`captured_parallel.py`), what is computed again (`captured_recompute.py`).

With `kernels="fused"` kernels that only pass over tensors are one kernel between two others. It
reads what comes from elsewhere and writes what is used elsewhere, as kernels of `torch.compile` do.
With `eager` each is a kernel of its own.

Source: Ansel et al. 2024 (PyTorch 2, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..capture.records import Operation
from .captured_attention import exchanged
from .captured_parallel import LocalBlock
from .captured_recompute import Again
from .parallelism import Parallelism
from .script import Gemm, KernelStep, Script, Scripts, Step

_WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1}


def scripts(local: LocalBlock, path: str, par: Parallelism) -> Scripts:
    """Forward and backward pass of a block."""
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
    run: list[Operation] = []
    for at, each in enumerate(ours):
        before, after = local.around(each)
        passes = each.kind in ("elementwise", "gather") and par.kernels == "fused"
        if before or not passes:
            yield from _merged(run, at, last, elsewhere, path)
            run = []
        yield from before
        if passes:
            run.append(each)
        elif each.kind == "attention" and par.cp > 1:
            yield from exchanged(each, par, f"{_inside(each, path)}.")
        else:
            yield _step(each, path)
        if after:
            yield from _merged(run, at + 1, last, elsewhere, path)
            run = []
            yield from after
    yield from _merged(run, len(ours), last, elsewhere, path)


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


def _step(each: Operation, path: str) -> Step:
    name, width = _name(each, path), _WIDTHS.get(each.reads[0].dtype, 4) if each.reads else 4
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
