"""Operations that a rank computes again before a layer's backward pass.

Here: `full`, `ops` and `selective` recomputation, and single modules. Not here: what is kept
(`memory.py`), operations (`model/flops.py`). A module's result is dropped and computed again from
its input, which is kept: norms from the residual stream; queries, keys and values of MLA from the
compressed ones; the value of a function from its inputs; a perceptron or expert block from the
result of its norm.

Sources: Chen et al. 2016 (arXiv:1604.06174); Korthikanti et al. 2022 (arXiv:2205.05198);
DeepSeek-AI 2024 (arXiv:2412.19437, section 3.2.3); NVIDIA/Megatron-LM (`--recompute-modules`)."""

from __future__ import annotations

from .experts import experts, routed_activation, shared_activation, shared_experts
from .layer import activation, inner, multiplications, perceptron, ups
from .script import KernelStep, Script, Scripts, Step
from .setting import Setting


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
