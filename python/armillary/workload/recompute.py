"""Operations that a rank computes again before a layer's backward pass.

Here: `full`, `ops` and `selective` recomputation, and single modules. Not here: what is kept
(`memory.py`), operations (`model/flops.py`). A module's result is dropped and computed again from
its input, which is kept: norms from the residual stream; queries, keys and values of MLA from the
compressed ones; the value of a function from its inputs; a perceptron or expert block from the
result of its norm.

Sources: Chen et al. 2016 (arXiv:1604.06174); Korthikanti et al. 2022 (arXiv:2205.05198);
DeepSeek-AI 2024 (arXiv:2412.19437, section 3.2.3); NVIDIA/Megatron-LM (`--recompute-modules`)."""

from __future__ import annotations

from ..model.flops import Repeated
from .experts import experts, routed_activation, shared_activation, shared_experts
from .layer import activation, inner, multiplications, perceptron, ups
from .parallelism import Parallelism
from .placement import Layout
from .script import KernelStep, Script, Scripts, Step
from .setting import Setting


def checkpoints(par: Parallelism, layers: int) -> list[range]:
    """Layers of a part of `layers` layers, from 0, that are recomputed whole: those of each
    checkpoint, whose first one keeps its input."""
    if par.recompute != "full":
        return []
    count = par.recompute_layers
    if count is None or par.recompute_method == "block":
        last = layers if count is None else min(count, layers)
        return [range(layer, layer + 1) for layer in range(last)]
    return [range(layer, min(layer + count, layers)) for layer in range(0, layers, count)]


def modules_repeat(par: Parallelism) -> bool:
    """Whether multi-token-prediction modules are recomputed as other layers: `block` leaves them
    out."""
    return par.recompute_layers is None or par.recompute_method == "uniform"


def repeated(par: Parallelism, layout: Layout) -> Repeated | None:
    """Layers and modules that are recomputed whole; `None` where all are that `par` says."""
    if par.recompute_layers is None:
        return None
    parts = zip(layout.first, layout.layers, strict=True)
    found = [
        (first + each.start, first + each.stop)
        for first, layers in parts
        for each in checkpoints(par, layers)
    ]
    return Repeated(
        tuple(layer for start, stop in found for layer in range(start, stop)),
        tuple(stop - 1 for _, stop in found),
        sum(layout.mtp) if modules_repeat(par) else 0,
    )


def recomputed(at: Setting, scripts: Scripts, mixed: bool) -> Script:
    """Recomputed operations of a layer with experts (`mixed`) or without, whose passes are
    `scripts`."""
    par = at.par
    if par.recompute == "full":
        return scripts.needed if par.early_stop else scripts.forward
    if par.recompute == "ops":
        return scripts.again
    return (*_attention(at), *(_experts(at) if mixed else _perceptron(at)))


def _attention(at: Setting) -> list[Step]:
    modules = at.par.modules
    steps: list[Step] = [*_norm(at, "attention")]
    whole = at.par.recompute == "selective" or "core_attn" in modules
    if "mla_up_proj" in modules:
        steps += multiplications(at, ups(at))
        steps += () if whole else inner(at).again
    return [*steps, *inner(at).forward] if whole else steps


def _norm(at: Setting, name: str) -> Script:
    """A norm alone, read and written: the sum that it is of is kept."""
    return (
        (KernelStep(f"{name}.norm", "normalization", 0, 2 * at.cut),)
        if "layernorm" in at.par.modules
        else ()
    )


def _perceptron(at: Setting) -> list[Step]:
    modules, ffn = at.par.modules, at.model.ffn
    steps: list[Step] = [*_norm(at, "mlp")]
    if "mlp" in modules:
        block = perceptron(at, ffn)
        return [*steps, *(block.needed if at.par.early_stop else block.forward)[1:]]
    return [
        *steps,
        *(activation(at, ffn // at.par.tp, at.tokens).forward if "activation" in modules else ()),
    ]


def _experts(at: Setting) -> list[Step]:
    modules = at.par.modules
    steps: list[Step] = [*_norm(at, "experts")]
    if "moe" in modules:
        return [*steps, *experts(at).forward[1:]]
    if "shared_experts" in modules:
        steps += shared_experts(at).forward
    elif "activation" in modules:
        steps += shared_activation(at)
    return [*steps, *(routed_activation(at) if {"activation", "moe_act"} & modules else ())]
