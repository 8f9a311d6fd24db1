"""Flags of `trtllm-serve`, and keys of its --extra_llm_api_options.

Source: NVIDIA/TensorRT-LLM 1.0, tensorrt_llm/commands/serve.py and tensorrt_llm/llmapi/llm_args.py
(`TorchLlmArgs`, `KvCacheConfig`), examples/serve/deepseek_r1_reasoning_parser.sh. The file
overrides the command line. With enable_attention_dp each rank of --tp_size has attention for
requests of its own."""

from __future__ import annotations

from collections.abc import Mapping

from ..launch.given import Given
from .command_words import Table, listed
from .deployment import Choices
from .engine_command import (
    EngineCommand,
    Formats,
    Spread,
    cache,
    drafts,
    finished,
    formats,
    fraction,
    model,
    only,
)
from .layout import Layout

_MEMORY = "kv_cache_config.free_gpu_memory_fraction"
_ALIASES = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size",
    "cp_size": "context_parallel_size", "ep_size": "moe_expert_parallel_size",
    "cluster_size": "moe_cluster_parallel_size", "free_gpu_memory_fraction": _MEMORY,
    "kv_cache_free_gpu_memory_fraction": _MEMORY, "extra_llm_api_options": "config",
}  # fmt: skip
_IDLE: Mapping[str, str] = {
    "how requests and answers travel, outside of the engine": """
        host port num_postprocess_workers reasoning_parser tool_parser chat_template
        media_io_kwargs metadata_server_config_file guided_decoding_backend
        postprocess_tokenizer_dir""",
    "logs and metrics": """
        log_level otlp_traces_endpoint print_iter_log enable_iter_perf_stats
        enable_iter_req_stats iter_stats_max_iterations request_stats_max_iterations
        return_perf_metrics kv_cache_config.event_buffer_max_size""",
    "how the model is found and loaded": """
        tokenizer custom_tokenizer tokenizer_mode skip_tokenizer_init revision tokenizer_revision
        load_format custom_module_dirs checkpoint_format""",
    "how processes start and find each other": "gpus_per_node orchestrator_type mpi_session",
}
_IDLE_SWITCHES: Mapping[str, str] = {
    "how the model is found and loaded": "trust_remote_code",
    "it ends the start alone": "fail_fast_on_attention_window_too_large",
}
_UNMODELED: Mapping[str, str] = {
    **dict.fromkeys(
        ("moe_config.backend", "moe_config.max_num_tokens", "attn_backend",
         "allreduce_strategy", "enable_lm_head_tp_in_adp", "nvfp4_gemm_config"),
        "the engine's description names its kernels and libraries",
    ),
    **dict.fromkeys(
        ("cuda_graph_config.enable_padding", "cuda_graph_config.max_batch_size",
         "cuda_graph_config.batch_sizes", "torch_compile_config"),
        "the engine's description has its graphs",
    ),
    **dict.fromkeys(
        ("scheduler_config", "attention_dp_config", "batch_wait_timeout_ms",
         "batch_wait_timeout_iters", "batch_wait_max_tokens_ratio"),
        "the scheduler is that of the engine's description",
    ),
    "moe_config.load_balancer": "experts have equal numbers of tokens",
    "stream_interval": "each token is sent alone",
    "kv_cache_config.enable_partial_reuse": "blocks are found whole",
    "kv_cache_config.copy_on_partial_reuse": "blocks are found whole",
    "enable_lora": "adapters take no time here",
    "lora_config": "adapters take no time here",
    "peft_cache_config": "adapters take no time here",
}  # fmt: skip
"""Flags that take or save time, and what is modeled instead."""
_LEAVES = "keys and values that leave the GPU are not modeled"
_APART = "engines for prompts and for answers are two commands"
_REFUSED: Mapping[str, str] = {
    "kv_cache_config.host_cache_size": _LEAVES,
    "kv_cache_config.max_attention_window": "it changes the model",
    "kv_cache_config.sink_token_length": "it changes the model",
    "kv_cache_config.use_uvm": _LEAVES,
    "cp_config": "parallelism over contexts is not modeled",
    "pp_partition": "stages have equal numbers of layers",
    "sparse_attention_config": "sparse attention is not modeled by this key",
    "model_kwargs": "it changes the model",
    "server_role": _APART,
    "disagg_cluster_uri": _APART,
    "cache_transceiver_config": _APART,
}
_REFUSED_HELP = "without it; --prefill for engines that compute prompts alone"
_ONLY: Mapping[str, tuple[tuple[str, ...], str]] = {
    "backend": (("pytorch",), "other backends have other kernels"),
    "dtype": (("auto", "float16", "bfloat16"), "activations have 16 bits"),
    "max_beam_width": (("1",), "a request has one answer"),
    "context_parallel_size": (("1",), "parallelism over contexts is not modeled"),
    "moe_cluster_parallel_size": (("1", "-1"), "clusters of experts are not modeled"),
}
_QUANT = "quant_config.quant_algo"
_FORMATS: Mapping[str, Formats] = {
    "fp8": ("fp8", "fp8"),
    "fp8_per_channel_per_token": ("fp8", "fp8"),
    "fp8_block_scales": ("fp8_block", "fp8_block"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "int8": ("int8", "int8"),
    "w8a16": ("int8", "int8"),
    "w8a16_gptq": ("int8", "int8"),
    "w4a16": ("int4", "int4"),
    "w4a16_awq": ("int4", "int4"),
    "w4a8_awq": ("int4", "int4"),
    "w4a16_gptq": ("int4", "int4"),
    "no_quant": (None, None),
}
"""Names of `QuantAlgo` (tensorrt_llm/quantization/mode.py)."""
_CACHES = {"auto": None, "bfloat16": "bf16", "float16": "bf16", "fp8": "fp8"}
_DRAFTING = "speculative_config"
_COUNTS = (f"{_DRAFTING}.num_nextn_predict_layers", f"{_DRAFTING}.max_draft_len")
"""Keys that have the number of drafts, of MTP and of the other methods."""
_DRAFT_IDLE = {
    "of drafts, whose time is not counted": f"""
        {_DRAFTING}.decoding_type {_DRAFTING}.speculative_model_dir {_DRAFTING}.speculative_model
        {_DRAFTING}.eagle3_one_model {_DRAFTING}.max_matching_ngram_size
        {_DRAFTING}.is_keep_all {_DRAFTING}.is_use_oldest {_DRAFTING}.is_public_pool""",
}

IDLE = {**listed(_IDLE), **listed(_DRAFT_IDLE)}
IDLE_SWITCHES = listed(_IDLE_SWITCHES)
TABLE = Table(
    engine="trtllm",
    separator="_",
    aliases=_ALIASES,
    switches=frozenset({*IDLE_SWITCHES, "enable_chunked_prefill"}),
    lists=frozenset(),
    objects=frozenset(),
    positional="model",
    config="config",
    overrides=True,
    offs=frozenset({"cuda_graph_config"}),
    rest=frozenset(
        {
            "scheduler_config", "attention_dp_config", "torch_compile_config", "lora_config",
            "peft_cache_config", "cp_config", "sparse_attention_config", "model_kwargs",
            "cache_transceiver_config", "nvfp4_gemm_config",
        }
    ),
)  # fmt: skip


def read(given: Given) -> EngineCommand:
    """The deployment of a command of TensorRT-LLM. Raises `InputError`."""
    name = model(given, "model", "trtllm-serve MODEL")
    tp, pp = (given.count(f"{kind}_parallel_size") or 1 for kind in ("tensor", "pipeline"))
    ep, cut = (given.count(f"moe_{kind}_parallel_size") for kind in ("expert", "tensor"))
    if ep and cut and ep * cut != tp:
        message = f"{ep} x {cut} (moe_tensor_parallel_size) ranks have experts, of {tp}"
        given.fault("moe_expert_parallel_size", message, "a product that is --tp_size")
    whole = ep or (tp // cut if cut else 1)
    only(given, _ONLY)
    if given.switch("enable_attention_dp"):
        layout = Layout(1, pp, tp, max(1, whole))
        spread = Spread(layout, layout)
    else:
        spread = Spread(Layout(tp, pp, 1, max(1, whole)), Layout(tp, pp))
    given.warn(_UNMODELED)
    given.refuse(_REFUSED, _REFUSED_HELP)
    return finished(
        "trtllm", given, IDLE, IDLE_SWITCHES, name, spread, formats(given, _QUANT, _FORMATS),
        _cache(given), _choices(given),
    )  # fmt: skip


def _cache(given: Given) -> str | None:
    """Format of keys and values, which two keys may say."""
    found = cache(given, "kv_cache_config.dtype", _CACHES)
    other = cache(given, "quant_config.kv_cache_quant_algo", {"fp8": "fp8", "no_quant": None})
    return found or other


def _choices(given: Given) -> Choices:
    block = given.count("kv_cache_config.tokens_per_block")
    capacity = given.count("kv_cache_config.max_tokens")
    if capacity is not None and block is None:
        given.fault(
            "kv_cache_config.max_tokens", "has no tokens_per_block, which decides the blocks",
            "kv_cache_config: {max_tokens: N, tokens_per_block: 32}",
        )  # fmt: skip
    graphs = given.value("cuda_graph_config")
    return Choices(
        sequences=given.count("max_batch_size"),
        tokens=given.count("max_num_tokens"),
        longest=given.count("max_seq_len"),
        block=block,
        blocks=max(1, capacity // block) if capacity and block else None,
        memory=fraction(given, _MEMORY),
        caching=given.switch("kv_cache_config.enable_block_reuse"),
        chunked=given.switch("enable_chunked_prefill"),
        asynchronous=_overlap(given),
        graphs=graphs is not False,
        drafts=_drafts(given),
        drafter=_drafter(given),
    )


def _overlap(given: Given) -> bool | None:
    off = given.switch("disable_overlap_scheduler")
    return None if off is None else not off


def _drafter(given: Given) -> str:
    """Source of drafts."""
    words = {"MTP": "mtp", "EAGLE": "eagle", "NGRAM": "ngram"}
    return words.get(str(given.value(f"{_DRAFTING}.decoding_type")).upper(), "draft_model")


def _drafts(given: Given) -> int:
    """Drafted tokens."""
    if not any(key.startswith(f"{_DRAFTING}.") for key in given.keys):
        return 0
    said = [key for key in _COUNTS if given.has(key)]
    if len(said) != 1:
        found = "both are given" if said else "is missing"
        given.fault(_COUNTS[1], found, "the number of drafts, by one key")
        return 0
    return drafts(given, said[0])
