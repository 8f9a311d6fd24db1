"""Megatron-Bridge's performance recipes for runs with experts.

Its tables print degrees and batches. What is recomputed, how tokens travel and what is overlapped
is in its recipes, scripts/performance/configs/*/*workload_base_configs.py: of NeMo 25.09 and 25.11
@01328424, @0fa501ac and @6b296ac1, of 26.02 and 26.04 @f0e2c37e and @1e7adfa9, of later releases
@04264182, @07eea52d and @01b2977e. A rule holds from the release on whose table has its layout. All
have whole experts (`expert_tensor_parallel_size=1`) and balanced routing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .file import Row

_OVERLAPPED = {"overlap_passes": "1"}
"""`moe_a2a_overlap`."""
_ONCE = {"ep_node": ""}
"""HybridEP or DeepEP sends a token once to a rank (`moe_flex_dispatcher_backend`)."""
_FUSED = {"fused_experts": "1"}
"""One kernel for an expert's matrices (`cutedsl_fused_grouped_mlp`)."""


def _again(modules: str) -> dict[str, str]:
    """`recompute_modules`."""
    return {"recompute_modules": modules}


_RULES: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    # model and format, GPU, releases, what the recipe says; the first that fits counts
    (
        r"deepseek.*mxfp8",
        "B200",
        r"26\.04\.01|26\.0[6-9]",
        _again("mla_up_proj,mlp") | _ONCE | _OVERLAPPED,
    ),
    (r"deepseek.*mxfp8", "GB300", r"26\.0[6-9]", _ONCE | _OVERLAPPED | _FUSED),
    (r"deepseek", "GB300|B300", r"2[56]", _again("mla_up_proj") | _ONCE),
    (r"deepseek", "B200", r"26", _again("mla_up_proj") | _ONCE),
    (r"deepseek", "B200", r"25", _again("mla_up_proj")),
    (
        r"deepseek",
        "H100",
        r"25",
        _again("mla_up_proj,mlp")
        | _ONCE
        | _OVERLAPPED
        | {"layers_per_stage": "Et|(tt|)*30mL", "mtp": "1"},
    ),
    (r"gpt.oss.*mxfp8", "GB200|B300", r"26\.0[6-9]", _ONCE | _OVERLAPPED | _FUSED),
    (r"gpt.oss.*bf16", "GB200", r"2[56]", _again("layernorm,moe_act")),
    (r"gpt.oss.*bf16", "B200|H100", r"26", _again("layernorm,moe_act")),
    (r"qwen3.30b", "B300", r"26", _ONCE),
    (r"qwen3.235b", "H100", r"26", _OVERLAPPED | {"tp_overlap": "false"}),
    (r"qwen3.235b", "H100", r"25", {"tp_overlap": "false"}),
)

_NODE = {"GB200": 64, "GB300": 64}
"""Ranks of experts that one switch connects; 8 where not listed."""


def recipe(row: Row, name: str, words: str, gpu: str, ep: int) -> dict[str, str]:
    """Settings in the recipe of a row of Megatron-Bridge's tables, besides degrees and batch."""
    release = str(row.get("software")).removeprefix("NeMo container ")
    for model, which, releases, said in _RULES:
        fits = re.search(model, f"{name} {words}", re.I) and re.fullmatch(which, gpu)
        if fits and re.match(releases, release):
            near = {"ep_node": str(min(ep, _NODE.get(gpu, 8)))} if "ep_node" in said else {}
            return {**said, **near}
    return {}
