"""Flags of `vllm serve`, and of `python -m vllm.entrypoints.openai.api_server`.

Source: vLLM 0.19.0, vllm/engine/arg_utils.py (`EngineArgs.add_cli_args`),
vllm/entrypoints/openai/cli_args.py and vllm/config. Models without experts run each rank of data
parallelism as an engine of its own. With experts the ranks share them: each expert is cut over all
ranks, or, with --enable-expert-parallel, each rank has whole ones (vllm/config/parallel.py)."""

from __future__ import annotations

from collections.abc import Mapping

from ..launch.given import Given
from .command_words import Table, listed, tokens
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

_ALIASES = {
    "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
    "ep": "enable-expert-parallel", "q": "quantization", "n": "nnodes", "r": "node-rank",
    "dcp": "decode-context-parallel-size", "pcp": "prefill-context-parallel-size",
    "dpn": "data-parallel-rank", "dpr": "data-parallel-start-rank",
    "dpl": "data-parallel-size-local", "dpa": "data-parallel-address",
    "dpp": "data-parallel-rpc-port", "dpb": "data-parallel-backend",
    "dph": "data-parallel-hybrid-lb", "dpe": "data-parallel-external-lb",
    "asc": "api-server-count", "sc": "speculative-config", "cc": "compilation-config",
    "ac": "attention-config", "O": "optimization-level", "model-tag": "model",
}  # fmt: skip
_IDLE: Mapping[str, str] = {
    "how requests and answers travel, outside of the engine": """
        host port uds root-path api-key allowed-origins allowed-methods allowed-headers ssl-keyfile
        ssl-certfile ssl-ca-certs ssl-cert-reqs ssl-ciphers middleware served-model-name
        api-server-count h11-max-incomplete-event-size h11-max-header-count
        response-role chat-template chat-template-content-format default-chat-template-kwargs
        tool-call-parser tool-parser-plugin tool-server reasoning-parser reasoning-parser-plugin
        renderer-num-workers max-logprobs logprobs-mode allowed-local-media-path
        allowed-media-domains io-processor-plugin shutdown-timeout""",
    "logs and metrics": """
        uvicorn-log-level disable-access-log-for-endpoints log-config-file max-log-len
        show-hidden-metrics-for-version otlp-traces-endpoint collect-detailed-traces
        kv-cache-metrics-sample profiler-config kv-events-config""",
    "how the model is found and loaded": """
        tokenizer tokenizer-mode hf-config-path revision code-revision tokenizer-revision
        config-format hf-token load-format download-dir safetensors-load-strategy
        model-loader-extra-config ignore-patterns pt-load-map-location max-parallel-loading-workers
        weight-transfer-config""",
    "how processes start and find each other": """
        distributed-executor-backend master-addr master-port nnodes node-rank
        distributed-timeout-seconds data-parallel-rank data-parallel-start-rank
        data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-backend
        worker-cls worker-extension-cls""",
    "values of samples, not their times": """
        seed generation-config override-generation-config structured-outputs-config
        reasoning-config prefix-caching-hash-algo""",
}
_IDLE_SWITCHES: Mapping[str, str] = {
    "how requests and answers travel, outside of the engine": """
        allow-credentials enable-ssl-refresh enable-request-id-headers disable-fastapi-docs
        enable-offline-docs trust-request-chat-template return-tokens-as-token-ids
        enable-auto-tool-choice exclude-tools-when-tool-choice-none enable-prompt-tokens-details
        enable-force-include-usage enable-tokenizer-info-endpoint tokens-only headless grpc
        skip-tokenizer-init""",
    "logs and metrics": """
        disable-uvicorn-access-log enable-server-load-tracking enable-log-outputs enable-log-deltas
        log-error-stack kv-cache-metrics cudagraph-metrics enable-layerwise-nvtx-tracing
        enable-mfu-metrics enable-logging-iteration-details disable-log-stats
        aggregate-engine-logging enable-log-requests ray-workers-use-nsight
        enable-mm-processor-stats""",
    "how the model is found and loaded": """
        trust-remote-code allow-deprecated-quantization use-tqdm-on-load calculate-kv-scales
        fail-on-environ-validation enable-ep-weight-filter enable-sleep-mode""",
    "how processes start and find each other": """
        data-parallel-hybrid-lb data-parallel-external-lb disable-nccl-for-dp-synchronization""",
    "sizes that the engine finds by itself": "enable-flashinfer-autotune",
    "images and sounds, which requests here do not have": """
        language-model-only enable-mm-embeds interleave-mm-strings skip-mm-profiling
        disable-chunked-mm-input enable-tower-connector-lora""",
}
_IDLE_MEDIA = {
    "images and sounds, which requests here do not have": """
        limit-mm-per-prompt media-io-kwargs mm-processor-kwargs mm-processor-cache-gb
        mm-processor-cache-type mm-shm-cache-max-object-size-mb mm-encoder-tp-mode
        mm-encoder-attn-backend video-pruning-rate mm-tensor-ipc default-mm-loras""",
}
_UNMODELED: Mapping[str, str] = {
    **dict.fromkeys(
        ("attention-backend", "attention-config", "moe-backend", "all2all-backend",
         "gdn-prefill-backend", "kernel-config", "disable-custom-all-reduce",
         "disable-cascade-attn"),
        "the engine's description names its kernels and libraries",
    ),
    **dict.fromkeys(
        ("compilation-config", "optimization-level", "performance-mode",
         "cudagraph-capture-sizes", "max-cudagraph-capture-size"),
        "the engine's description has its graphs",
    ),
    **dict.fromkeys(
        ("enable-dbo", "ubatch-size", "dbo-decode-token-threshold",
         "dbo-prefill-token-threshold"),
        "a step is one batch",
    ),
    **dict.fromkeys(
        ("enable-eplb", "eplb-config", "expert-placement-strategy"),
        "experts have equal numbers of tokens",
    ),
    **dict.fromkeys(
        ("enable-lora", "lora-modules", "max-loras", "max-lora-rank", "lora-dtype",
         "max-cpu-loras", "fully-sharded-loras", "lora-target-modules",
         "specialize-active-lora"),
        "adapters take no time here",
    ),
    **dict.fromkeys(
        ("mamba-cache-dtype", "mamba-ssm-cache-dtype", "mamba-block-size", "mamba-cache-mode",
         "disable-hybrid-kv-cache-manager", "kv-cache-dtype-skip-layers",
         "kv-sharing-fast-prefill", "disable-sliding-window"),
        "each kind of layers has its cache by its own rule",
    ),
    "stream-interval": "each token is sent alone",
    "enable-return-routed-experts": "answers are tokens",
    "enable-elastic-ep": "the number of ranks stays",
    "scheduler-reserve-full-isl": "the engine's description says when a request is admitted",
    "max-num-partial-prefills": "several long prompts share a step",
    "max-long-partial-prefills": "several long prompts share a step",
    "additional-config": "it is for plugins of other hardware",
    "logits-processors": "sampling is the engine's own",
    "enable-prompt-embeds": "prompts are tokens",
}  # fmt: skip
"""Flags that take or save time, and what is modeled instead."""
_REFUSED: Mapping[str, str] = {
    "kv-cache-memory-bytes": "the bytes of the cache are given: their blocks are not known here",
    "kv-offloading-size": "keys and values that leave the GPU are not modeled",
    "kv-offloading-backend": "keys and values that leave the GPU are not modeled",
    "kv-transfer-config": "keys and values from other engines are not modeled by this flag",
    "ec-transfer-config": "encoders in other engines are not modeled",
    "offload-backend": "weights in the memory of the host are not modeled",
    "cpu-offload-params": "weights in the memory of the host are not modeled",
    "offload-group-size": "weights in the memory of the host are not modeled",
    "offload-num-in-group": "weights in the memory of the host are not modeled",
    "offload-prefetch-step": "weights in the memory of the host are not modeled",
    "offload-params": "weights in the memory of the host are not modeled",
    "scheduler-cls": "another scheduler is not modeled",
    "pooler-config": "the engine generates no text",
    "hf-overrides": "it changes the model",
    "override-attention-dtype": "it changes the formats of attention",
    "mm-encoder-only": "the engine generates no text",
    "dcp-comm-backend": "parallelism over contexts is not modeled",
    "dcp-kv-cache-interleave-size": "parallelism over contexts is not modeled",
    "cp-kv-cache-interleave-size": "parallelism over contexts is not modeled",
}
_REFUSED_HELP = "without it; --blocks for a cache, --prefill for engines apart"
_HOST = "weights in the memory of the host are not modeled"
_ONLY: Mapping[str, tuple[tuple[str, ...], str]] = {
    "runner": (("auto", "generate"), "the engine generates no text"),
    "convert": (("auto", "none"), "the engine generates no text"),
    "model-impl": (("auto", "vllm"), "other implementations have other kernels"),
    "dtype": (("auto", "half", "float16", "bfloat16"), "activations have 16 bits"),
    "cpu-offload-gb": (("0", "0.0"), _HOST),
    "decode-context-parallel-size": (("1",), "parallelism over contexts is not modeled"),
    "prefill-context-parallel-size": (("1",), "parallelism over contexts is not modeled"),
}
_INT4 = ("awq", "awq_marlin", "gptq", "gptq_marlin", "cpu_awq")
_FORMATS: Mapping[str, Formats] = {
    "none": (None, None),
    "fp8": ("fp8", "fp8"),
    "fbgemm_fp8": ("fp8", "fp8"),
    "modelopt": ("fp8", "fp8"),
    "modelopt_fp4": ("nvfp4", "nvfp4"),
    "petit_nvfp4": ("nvfp4", "nvfp4"),
    "mxfp4": ("bf16", "mxfp4"),
    "experts_int8": ("bf16", "int8"),
    **dict.fromkeys(_INT4, ("int4", "int4")),
}
"""Methods of quantization that say a format (vllm/model_executor/layers/quantization)."""
_CACHES = {
    "auto": None,
    "float16": "bf16",
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_ds_mla": "fp8",
}
_DRAFTING = "speculative-config"
_DRAFT_IDLE = (
    "method", "model", "quantization", "draft_tensor_parallel_size", "max_model_len", "revision",
    "code_revision", "prompt_lookup_max", "prompt_lookup_min", "enforce_eager", "moe_backend",
    "disable_padded_drafter_batch", "use_local_argmax_reduction", "draft_load_config",
    "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests",
    "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob", "parallel_drafting",
)  # fmt: skip
_READ_SWITCHES = {
    "enable-expert-parallel", "enable-prefix-caching", "enable-chunked-prefill",
    "async-scheduling", "enforce-eager", "enable-dbo", "enable-eplb", "enable-lora",
    "fully-sharded-loras", "specialize-active-lora", "disable-custom-all-reduce",
    "disable-cascade-attn", "disable-hybrid-kv-cache-manager", "kv-sharing-fast-prefill",
    "disable-sliding-window", "enable-return-routed-experts", "enable-elastic-ep",
    "scheduler-reserve-full-isl", "enable-prompt-embeds", "mm-encoder-only",
}  # fmt: skip

IDLE = {**listed(_IDLE), **listed(_IDLE_MEDIA)}
IDLE_SWITCHES = listed(_IDLE_SWITCHES)
TABLE = Table(
    engine="vllm",
    separator="-",
    aliases=_ALIASES,
    switches=frozenset({*IDLE_SWITCHES, *_READ_SWITCHES}),
    lists=frozenset(
        {
            "api-key", "served-model-name", "middleware", "lora-modules", "lora-target-modules",
            "cudagraph-capture-sizes", "ignore-patterns", "logits-processors",
            "allowed-media-domains", "offload-params", "cpu-offload-params",
            "kv-cache-dtype-skip-layers", "collect-detailed-traces", "limit-mm-per-prompt",
            "mm-processor-kwargs", "allowed-origins", "allowed-methods", "allowed-headers",
        }
    ),
    objects=frozenset({_DRAFTING}),
    positional="model",
    config="config",
    overrides=False,
    rest=frozenset(
        {
            "compilation-config", "attention-config", "kernel-config", "eplb-config",
            "structured-outputs-config", "reasoning-config", "profiler-config",
            "kv-events-config", "kv-transfer-config", "ec-transfer-config",
            "override-generation-config", "hf-overrides", "pooler-config",
            "model-loader-extra-config", "default-chat-template-kwargs", "limit-mm-per-prompt",
            "media-io-kwargs", "mm-processor-kwargs", "additional-config",
            "weight-transfer-config", "default-mm-loras",
        }
    ),
)  # fmt: skip


def read(given: Given) -> EngineCommand:
    """The deployment of a command of vLLM. Raises `InputError`."""
    name = model(given, "model", "vllm serve MODEL")
    sizes = {
        key: given.count(f"{long}-parallel-size") or 1
        for key, long in (("tp", "tensor"), ("pp", "pipeline"), ("dp", "data"))
    }
    tp, pp, dp = sizes["tp"], sizes["pp"], sizes["dp"]
    has_whole = given.switch("enable-expert-parallel") or False
    spread = Spread(
        Layout(tp, pp, dp, tp * dp if has_whole else 1), Layout(tp, pp), dense_replicas=dp
    )
    only(given, _ONLY)
    given.warn(_UNMODELED)
    given.refuse(_REFUSED, _REFUSED_HELP)
    drafting = dict.fromkeys(
        (f"{_DRAFTING}.{key}" for key in _DRAFT_IDLE), "of drafts, whose time is not counted"
    )
    return finished(
        "vllm", given, {**IDLE, **drafting}, IDLE_SWITCHES, name, spread,
        formats(given, "quantization", _FORMATS), cache(given, "kv-cache-dtype", _CACHES),
        _choices(given),
    )  # fmt: skip


def _choices(given: Given) -> Choices:
    eager = given.switch("enforce-eager") or False
    return Choices(
        sequences=given.count("max-num-seqs"),
        tokens=tokens(given, "max-num-batched-tokens"),
        longest=_longest(given),
        block=given.count("block-size"),
        blocks=given.count("num-gpu-blocks-override"),
        memory=fraction(given, "gpu-memory-utilization"),
        caching=given.switch("enable-prefix-caching"),
        chunked=given.switch("enable-chunked-prefill"),
        asynchronous=given.switch("async-scheduling"),
        graphs=not eager,
        priority=given.word("scheduling-policy", ("fcfs", "priority")) == "priority",
        long_prefill=given.count("long-prefill-token-threshold", 0) or 0,
        drafts=_drafts(given),
        drafter=_drafter(given),
    )


def _drafter(given: Given) -> str:
    """Source of drafts. Names of models that have heads for it stand for MTP, as in vLLM."""
    method = str(given.value(f"{_DRAFTING}.method") or "").lower()
    if method.startswith("eagle"):
        return "eagle"
    if method.endswith("mtp"):
        return "mtp"
    return method if method == "ngram" else "draft_model"


def _longest(given: Given) -> int | None:
    """Tokens of a request; `None` for the length that the engine finds."""
    said = given.keys.get("max-model-len")
    if said is not None and not said.unknown and str(said.value).lower() in ("auto", "-1"):
        given.value("max-model-len")
        return None
    return tokens(given, "max-model-len")


def _drafts(given: Given) -> int:
    """Drafted tokens: those of a chain."""
    key = f"{_DRAFTING}.num_speculative_tokens"
    if given.has(_DRAFTING):
        given.fault(_DRAFTING, "is not a JSON object", '{"num_speculative_tokens": 3, ...}')
        return 0
    if not any(each.startswith(f"{_DRAFTING}.") for each in given.keys):
        return 0
    if given.has(f"{_DRAFTING}.speculative_token_tree"):
        message = "a tree of drafts is not modeled"
        given.fault(f"{_DRAFTING}.speculative_token_tree", message, "a chain, without it")
    if not given.has(key):
        given.fault(key, "is missing", "a count from 1")
        return 0
    return drafts(given, key)
