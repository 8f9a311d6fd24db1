"""How tensor and expert parallelism divide the parameters of a captured module, by name.

Here: rules of a plan, the plans that models of `transformers` come with, and those that users give.
Not here: what a division makes of operations (`workload/captured_parallel.py`).

A plan has patterns of names, `layers.*.q_proj`, for modules or parameters. A star stands for one
part of a name. Words are those of `transformers` and, of expert parallelism, `experts`.

- The embedding and the head of a model are divided by vocabulary, and so is the loss, as Megatron
  and torchtitan train. `transformers` gathers the head's result.
- Plans of `transformers` leave some models out. Those of GPT-2, BERT, OPT, StableLM, gpt-oss and of
  attention with compressed keys are Megatron's: `ColumnParallelLinear` and `RowParallelLinear` in
  `attention.py`, `mlp.py` and `multi_latent_attention.py` of NVIDIA/Megatron-LM
  (`core/transformer`)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch

from ..errors import InputError, Problem
from . import styles
from .records import Rules, TensorRule

_WORDS: dict[str, TensorRule | None] = {
    "colwise": "colwise",
    "rowwise": "rowwise",
    "packed_colwise": "colwise",
    "packed_rowwise": "rowwise",
    "rowwise_split_input": "rowwise",
    "colwise_gather_output": "gathered",
    "embedding_rowwise": "vocabulary",
    "embedding_colwise": "gathered",
    "vocabulary": "vocabulary",
    "replicate": None,
    "replicated_with_grad_allreduce": None,
    "mla_kv_a_proj": None,
    "moe_tp_experts": None,
    "moe_identity_expert": None,
    "local_params": None,
    "all_reduce": None,
}
"""Words of plans for tensor parallelism; None where nothing is divided."""
_ANY = "**."
"""Begins a pattern for names behind those of any modules."""
_EXPERTS = {"experts", "grouped_gemm"}
"""Words of plans for expert parallelism that divide a parameter by experts."""


_ATTENTION = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.k_proj": "colwise",
    "layers.*.self_attn.v_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
}
_LATENT = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.q_b_proj": "colwise",
    "layers.*.self_attn.kv_b_proj": "colwise",
    "layers.*.self_attn.o_proj": "rowwise",
}


def _perceptron(path: str) -> dict[str, str]:
    return {
        f"{path}.gate_proj": "colwise",
        f"{path}.up_proj": "colwise",
        f"{path}.down_proj": "rowwise",
    }


_MORE: dict[str, dict[str, str]] = {
    "bert": {
        "encoder.layer.*.attention.self.query": "colwise",
        "encoder.layer.*.attention.self.key": "colwise",
        "encoder.layer.*.attention.self.value": "colwise",
        "encoder.layer.*.attention.output.dense": "rowwise",
        "encoder.layer.*.intermediate.dense": "colwise",
        "encoder.layer.*.output.dense": "rowwise",
    },
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gpt2": {
        "h.*.attn.c_attn": "colwise",
        "h.*.attn.c_proj": "rowwise",
        "h.*.mlp.c_fc": "colwise",
        "h.*.mlp.c_proj": "rowwise",
    },
    "gpt_oss": {
        **_ATTENTION,
        "layers.*.self_attn.sinks": "colwise",
        "layers.*.mlp.experts.gate_up_proj": "colwise",
        "layers.*.mlp.experts.gate_up_proj_bias": "colwise",
        "layers.*.mlp.experts.down_proj": "rowwise",
    },
    "hunyuan_v1_moe": {**_ATTENTION, **_perceptron("layers.*.mlp.shared_mlp")},
    "mistral4": _LATENT,
    "opt": {
        "layers.*.self_attn.q_proj": "colwise",
        "layers.*.self_attn.k_proj": "colwise",
        "layers.*.self_attn.v_proj": "colwise",
        "layers.*.self_attn.out_proj": "rowwise",
        "layers.*.fc1": "colwise",
        "layers.*.fc2": "rowwise",
    },
    "phimoe": _ATTENTION,
    "qwen3_vl_text": {**_ATTENTION, **_perceptron("layers.*.mlp")},
    "stablelm": {**_ATTENTION, **_perceptron("layers.*.mlp")},
}
"""Plans for types of models where `transformers` has none, for names behind those of any modules
around them."""


def of_module(
    module: torch.nn.Module,
    tensor: Mapping[str, Any] | Callable[[Any, Any], Any] | None,
    experts: Mapping[str, str] | None,
) -> Rules:
    """The rules of a module: those that a user gives, else those of `transformers` where the module
    comes from there. Raises `InputError`."""
    if tensor is None and experts is None and hasattr(module, "_tp_plan"):
        return of_transformers(module)
    if tensor is not None:
        of = styles.words if isinstance(tensor, Mapping) else styles.noted
        tensor = of(module, tensor)  # type: ignore[arg-type]
    return given([name for name, _ in module.named_parameters()], tensor, experts)


def given(
    names: Iterable[str], tensor: Mapping[str, str] | None, experts: Mapping[str, str] | None
) -> Rules:
    """The rules that a user's plans give the parameters `names`. Raises `InputError` for an
    unknown word, and for a pattern that no parameter has."""
    known = tuple(names)
    problems = []
    for option, plan, words in (
        ("tp_plan", tensor or {}, sorted(_WORDS)),
        ("ep_plan", experts or {}, ["experts"]),
    ):
        for pattern, word in plan.items():
            if word not in words:
                said = f"unknown rule {word!r}"
                problems.append(Problem("", f"{option}.{pattern}", said, ", ".join(words)))
            elif not any(_matches(pattern, name) for name in known):
                said = "no parameter, and no module with parameters, has this name"
                help_ = "a name such as layers.*.q_proj"
                problems.append(Problem("", f"{option}.{pattern}", said, help_))
    if problems:
        raise InputError(problems)
    return _rules(known, tensor or {}, experts or {})


def of_transformers(model: Any) -> Rules:
    """The rules of a model of `transformers`."""
    kind = model.config.get_text_config().model_type
    more = {f"{_ANY}{pattern}": word for pattern, word in _MORE.get(kind, {}).items()}
    tensor = {**(getattr(model, "_tp_plan", None) or {}), **more}
    names = {id(each): name for name, each in model.named_parameters()}
    for get in (model.get_input_embeddings, model.get_output_embeddings):
        # Models of images or sound have none, and some do not say so.
        with contextlib.suppress(NotImplementedError, AttributeError):
            if weight := names.get(id(get().weight)):
                tensor[weight] = "vocabulary"
    return _rules(tuple(names.values()), tensor, getattr(model, "_ep_plan", None) or {})


def _rules(names: tuple[str, ...], tensor: Mapping[str, str], experts: Mapping[str, str]) -> Rules:
    divided = {}
    for name in names:
        rule = _WORDS.get(_word(name, tensor))
        if rule is not None:
            divided[name] = rule
    return Rules(divided, tuple(name for name in names if _word(name, experts) in _EXPERTS))


def _word(name: str, plan: Mapping[str, str]) -> str:
    """The word for a parameter: its own, else that of its module."""
    for wanted in (name, name.rpartition(".")[0]):
        for pattern, word in plan.items():
            if _is(pattern, wanted):
                return word
    return ""


def _matches(pattern: str, name: str) -> bool:
    return _is(pattern, name) or _is(pattern, name.rpartition(".")[0])


def _is(pattern: str, name: str) -> bool:
    return bool(name) and _named(pattern).fullmatch(name) is not None


@cache
def _named(pattern: str) -> re.Pattern[str]:
    """The names that a pattern stands for."""
    rest = pattern.removeprefix(_ANY)
    before = "" if rest == pattern else r"(?:[^.]+\.)*"
    return re.compile(before + "[^.]+".join(re.escape(part) for part in rest.split("*")))
