"""Flags of `python -m sglang.launch_server`.

Source: sgl-project/sglang, docs/advanced_features/server_arguments.md and
python/sglang/srt/server_args.py, 0.5. Data parallelism is engines of their own. With
--enable-dp-attention it is ranks within --tp-size that share the experts; the tokens of a chunk and
the running requests are then divided by the ranks. DeepEP and its like spread experts over all
ranks."""

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

_ALIASES = {
    "model": "model-path", "tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size",
    "pp": "pipeline-parallel-size", "pp-size": "pipeline-parallel-size",
    "dp": "data-parallel-size", "dp-size": "data-parallel-size",
    "ep": "expert-parallel-size", "ep-size": "expert-parallel-size",
    "attn-cp-size": "attention-context-parallel-size", "moe-dp-size": "moe-data-parallel-size",
    "nccl-init-addr": "dist-init-addr", "nsa-prefill-backend": "dsa-prefill-backend",
    "nsa-decode-backend": "dsa-decode-backend", "nsa-prefill": "dsa-prefill-backend",
    "nsa-decode": "dsa-decode-backend", "nsa-prefill-cp-mode": "dsa-prefill-cp-mode",
    "enable-nsa-prefill-context-parallel": "enable-dsa-prefill-context-parallel",
    "speculative-draft-model": "speculative-draft-model-path",
    "fp8-gemm-runner-backend": "fp8-gemm-backend",
}  # fmt: skip
_IDLE: Mapping[str, str] = {
    "how requests and answers travel, outside of the engine": """
        host port fastapi-root-path warmups nccl-port api-key admin-api-key served-model-name
        weight-version chat-template hf-chat-template-name completion-template file-storage-path
        reasoning-parser tool-call-parser tool-server sampling-defaults tokenizer-worker-num
        max-queued-requests preferred-sampling-params grammar-backend
        constrained-json-whitespace-pattern""",
    "logs and metrics": """
        log-level log-level-http log-requests-level log-requests-format log-requests-target
        uvicorn-access-log-exclude-prefixes crash-dump-folder
        tokenizer-metrics-custom-labels-header tokenizer-metrics-allowed-custom-labels
        bucket-time-to-first-token bucket-inter-token-latency bucket-e2e-request-latency
        prompt-tokens-buckets generation-tokens-buckets gc-warning-threshold-secs
        decode-log-interval kv-events-config otlp-traces-endpoint export-metrics-to-file-dir
        expert-distribution-recorder-mode expert-distribution-recorder-buffer-size
        debug-tensor-dump-output-folder debug-tensor-dump-layers debug-tensor-dump-input-file
        debug-tensor-dump-inject load-watch-interval msprobe-dump-config crash-on-nan
        prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets""",
    "how the model is found and loaded": """
        tokenizer-path tokenizer-mode load-format model-loader-extra-config revision download-dir
        model-checksum quantization-param-path custom-weight-loader
        modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
        weight-loader-prefetch-num-threads remote-instance-weight-loader-seed-instance-ip
        remote-instance-weight-loader-seed-instance-service-port
        remote-instance-weight-loader-send-weights-group-ports
        remote-instance-weight-loader-backend decrypted-config-file
        decrypted-draft-config-file""",
    "how processes start and find each other": """
        device base-gpu-id gpu-id-step dist-init-addr nnodes node-rank dist-timeout
        watchdog-timeout soft-watchdog-timeout numa-node mooncake-ib-device""",
    "values of samples, not their times": "random-seed",
    "images and sounds, which requests here do not have": """
        mm-attention-backend mm-max-concurrent-calls mm-per-request-timeout mm-process-config
        limit-mm-data-per-request encoder-transfer-backend encoder-urls""",
}
_IDLE_SWITCHES: Mapping[str, str] = {
    "how requests and answers travel, outside of the engine": """
        skip-tokenizer-init grpc-mode skip-server-warmup
        checkpoint-engine-wait-weights-before-ready enable-cache-report
        constrained-json-disable-any-whitespace allow-auto-truncate enable-custom-logit-processor
        incremental-streaming-output sleep-on-idle abort-on-priority-when-disabled
        disable-outlines-disk-cache enable-multimodal disable-fast-image-processor
        keep-mm-feature-on-device""",
    "logs and metrics": """
        log-requests show-time-cost enable-metrics enable-mfu-metrics
        enable-metrics-for-all-schedulers collect-tokens-histogram
        enable-request-time-stats-logging enable-trace export-metrics-to-file
        enable-layerwise-nvtx-marker enable-profile-cuda-graph
        enable-expert-distribution-metrics enable-nan-detection""",
    "how the model is found and loaded": """
        trust-remote-code delete-ckpt-after-loading enable-memory-saver
        enable-weights-cpu-backup enable-draft-weights-cpu-backup enable-cudagraph-gc
        disable-flashinfer-autotune enable-p2p-check weight-loader-disable-mmap
        weight-loader-prefetch-checkpoints
        remote-instance-weight-loader-start-seed-via-transfer-engine""",
    "images and sounds, which requests here do not have": """
        language-only enable-broadcast-mm-inputs-process mm-enable-dp-encoder
        enable-mm-global-cache enable-prefix-mm-cache enable-precise-embedding-interpolation""",
}
_UNMODELED: Mapping[str, str] = {
    **dict.fromkeys(
        ("attention-backend", "prefill-attention-backend", "decode-attention-backend",
         "sampling-backend", "fp8-gemm-backend", "fp4-gemm-backend", "moe-runner-backend",
         "deepep-mode", "deepep-config", "deepep-dispatcher-output-dtype",
         "flashinfer-mxfp4-moe-precision", "disable-custom-all-reduce", "enable-nccl-nvls",
         "enable-symm-mem", "enable-torch-symm-mem", "enable-mscclpp",
         "enable-flashinfer-allreduce-fusion", "enable-fused-qk-norm-rope",
         "disable-shared-experts-fusion", "flashinfer-mla-disable-ragged",
         "disable-chunked-prefix-cache", "triton-attention-num-kv-splits",
         "enable-attn-tp-input-scattered", "speculative-attention-mode", "dsa-prefill-backend",
         "dsa-decode-backend", "triton-attention-reduce-in-fp32",
         "triton-attention-split-tile-size", "enable-fused-grouped-gemm-combine",
         "enable-aiter-allreduce-fusion", "disable-flashinfer-cutlass-moe-fp4-allgather",
         "enable-flashinfer-cutlass-moe", "enable-flashinfer-cutedsl-moe",
         "enable-flashinfer-trtllm-moe", "enable-triton-kernel-moe",
         "enable-flashinfer-mxfp4-moe"),
        "the engine's description names its kernels and libraries",
    ),
    **dict.fromkeys(
        ("cuda-graph-max-bs", "cuda-graph-bs", "disable-cuda-graph-padding",
         "disable-piecewise-cuda-graph", "enforce-piecewise-cuda-graph",
         "piecewise-cuda-graph-tokens", "piecewise-cuda-graph-compiler",
         "piecewise-cuda-graph-max-tokens", "enable-torch-compile", "torch-compile-max-bs",
         "enable-torch-compile-debug-mode"),
        "the engine's description has its graphs",
    ),
    **dict.fromkeys(
        ("enable-two-batch-overlap", "enable-single-batch-overlap",
         "tbo-token-distribution-threshold"),
        "the engine's description says what a step holds",
    ),
    **dict.fromkeys(
        ("ep-num-redundant-experts", "ep-dispatch-algorithm", "init-expert-location",
         "enable-eplb", "eplb-algorithm", "eplb-rebalance-num-iterations",
         "eplb-rebalance-layers-per-chunk", "eplb-min-rebalancing-utilization-threshold"),
        "experts have equal numbers of tokens",
    ),
    **dict.fromkeys(
        ("enable-lora", "enable-lora-overlap-loading", "max-lora-rank", "lora-target-modules",
         "lora-paths", "max-loras-per-batch", "max-loaded-loras", "lora-eviction-policy",
         "lora-backend", "max-lora-chunk-size", "lora-drain-wait-threshold"),
        "adapters take no time here",
    ),
    **dict.fromkeys(
        ("prefill-max-requests", "enable-dynamic-chunking", "prefill-round-robin-balance",
         "enable-prefill-delayer",
         "prefill-delayer-max-delay-passes", "prefill-delayer-token-usage-low-watermark",
         "prefill-delayer-queue-min-ratio", "prefill-delayer-max-delay-ms",
         "scheduler-recv-interval", "pp-max-micro-batch-size", "pp-async-batch-depth",
         "priority-scheduling-preemption-threshold", "load-balance-method",
         "enable-dynamic-batch-tokenizer", "dynamic-batch-tokenizer-batch-size",
         "dynamic-batch-tokenizer-batch-timeout", "enable-tokenizer-batch-encode",
         "disable-tokenizer-batch-decode"),
        "the scheduler is that of the engine's description",
    ),
    **dict.fromkeys(
        ("swa-full-tokens-ratio", "disable-hybrid-swa-memory", "max-mamba-cache-size",
         "mamba-ssm-dtype", "mamba-full-memory-ratio", "mamba-scheduler-strategy",
         "mamba-track-interval"),
        "each kind of layers has its cache by its own rule",
    ),
    **dict.fromkeys(
        ("enable-dp-lm-head", "moe-dense-tp-size"),
        "the head and dense layers are spread as attention is",
    ),
    "radix-eviction-policy": "the prefix that was used least recently is forgotten",
    "stream-interval": "each token is sent alone",
    "enable-fp32-lm-head": "the head has 16 bits",
    "enable-return-hidden-states": "answers are tokens",
    "enable-return-routed-experts": "answers are tokens",
    "enable-deterministic-inference": "kernels are the usual ones",
}  # fmt: skip
"""Flags that take or save time, and what is modeled instead."""
_HOST = "weights in the memory of the host are not modeled"
_KEYS = "keys and values that leave the GPU are not modeled"
_REFUSED: Mapping[str, str] = {
    "is-embedding": "the engine generates no text",
    "encoder-only": "the engine generates no text",
    "json-model-override-args": "it changes the model",
    "modelopt-quant": "it changes the formats of the weights",
    "quantize-and-serve": "it changes the formats of the weights",
    "torchao-config": "it changes the formats of the weights",
    "rl-quant-profile": "it changes the formats of the weights",
    "enable-quant-communications": "collectives have 16 bits",
    **dict.fromkeys(
        ("enable-hierarchical-cache", "hicache-ratio", "hicache-size", "hicache-write-policy",
         "hicache-io-backend", "hicache-mem-layout", "hicache-storage-backend",
         "hicache-storage-prefetch-policy", "hicache-storage-backend-extra-config",
         "enable-lmcache"), _KEYS,
    ),
    **dict.fromkeys(
        ("offload-group-size", "offload-num-in-group", "offload-prefetch-step", "offload-mode",
         "kt-weight-path", "kt-method", "kt-cpuinfer", "kt-threadpool-count",
         "kt-num-gpu-experts", "kt-max-deferred-experts-per-token"), _HOST,
    ),
    **dict.fromkeys(
        ("disaggregation-transfer-backend", "disaggregation-bootstrap-port",
         "disaggregation-ib-device", "disaggregation-decode-enable-offload-kvcache",
         "num-reserved-decode-tokens", "disaggregation-decode-polling-interval"),
        "engines for prompts and for answers are two commands",
    ),
    "enable-pdmux": "prompts and answers on parts of a GPU are not modeled",
    "pdmux-config-path": "prompts and answers on parts of a GPU are not modeled",
    "sm-group-num": "prompts and answers on parts of a GPU are not modeled",
    "multi-item-scoring-delimiter": "the engine generates no text",
    "forward-hooks": "they may change the model",
    "rl-on-policy-target": "kernels of training are not modeled",
    "enable-deepep-waterfill": "the shared expert is on all ranks",
    "enable-dsa-prefill-context-parallel": "parallelism over contexts is not modeled",
    "dllm-algorithm": "models of diffusion are not modeled",
    "dllm-algorithm-config": "models of diffusion are not modeled",
    "hierarchical-sparse-attention-extra-config": _KEYS,
    "hybrid-kvcache-ratio": "each kind of layers has its cache by its own rule",
    "dsa-prefill-cp-mode": "parallelism over contexts is not modeled",
    "enable-elastic-expert-backup": "the number of ranks stays",
    "elastic-ep-rejoin": "the number of ranks stays",
    "enable-multi-layer-eagle": "drafts of several layers are not modeled",
    "num-continuous-decode-steps": "each step is scheduled by itself",
}  # fmt: skip
_REFUSED_HELP = "without it; --prefill for engines that compute prompts alone"
_CONTEXTS = "parallelism over contexts is not modeled"
_ONLY: Mapping[str, tuple[tuple[str, ...], str]] = {
    "model-impl": (("auto", "sglang"), "other implementations have other kernels"),
    "dtype": (("auto", "half", "float16", "bfloat16"), "activations have 16 bits"),
    "cpu-offload-gb": (("0",), _HOST),
    "attention-context-parallel-size": (("1",), _CONTEXTS),
    "moe-data-parallel-size": (("1",), "experts are shared by all ranks of an engine"),
    "disaggregation-mode": (("null",), "engines for prompts and for answers are two commands"),
    "schedule-policy": (("fcfs", "lpm"), "another order of requests is not modeled"),
    "speculative-eagle-topk": (("1",), "a tree of drafts is not modeled"),
    "elastic-ep-backend": (("none",), "the number of ranks stays"),
}
_SPREADING = ("deepep", "mooncake", "mori", "nixl", "ascend_fuseep")
"""Exchanges of tokens for which each rank has whole experts."""
_INT4 = ("awq", "awq_marlin", "gptq", "gptq_marlin", "marlin")
_FORMATS: Mapping[str, Formats] = {
    **dict.fromkeys(("fp8", "w8a8_fp8", "modelopt_fp8"), ("fp8", "fp8")),
    **dict.fromkeys(("modelopt_fp4", "petit_nvfp4"), ("nvfp4", "nvfp4")),
    **dict.fromkeys(_INT4, ("int4", "int4")),
    "w8a8_int8": ("int8", "int8"),
    "mxfp4": ("bf16", "mxfp4"),
    "moe_wna16": ("bf16", "int4"),
    "w4afp8": ("fp8", "int4"),
}
_CACHES = {
    "auto": None,
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
_METHODS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
_DRAFT_IDLE = {
    "of drafts, whose time is not counted": """
        speculative-draft-model-path speculative-draft-model-revision
        speculative-draft-load-format speculative-token-map speculative-draft-attention-backend
        speculative-moe-runner-backend speculative-moe-a2a-backend
        speculative-draft-model-quantization speculative-accept-threshold-single
        speculative-accept-threshold-acc speculative-ngram-min-bfs-breadth
        speculative-ngram-max-bfs-breadth speculative-ngram-match-type
        speculative-ngram-max-trie-depth speculative-ngram-capacity""",
}
_SWITCHES = {
    "disable-radix-cache", "disable-cuda-graph", "disable-overlap-schedule",
    "enable-dp-attention", "enable-priority-scheduling", "schedule-low-priority-values-first",
    "enable-mixed-chunk", "is-embedding", "encoder-only", "quantize-and-serve",
    "enable-quant-communications", "enable-hierarchical-cache", "enable-lmcache",
    "enable-multi-layer-eagle", "disaggregation-decode-enable-offload-kvcache",
    "disable-custom-all-reduce", "enable-nccl-nvls", "enable-symm-mem",
    "enable-torch-symm-mem", "enable-mscclpp", "enable-flashinfer-allreduce-fusion",
    "enable-fused-qk-norm-rope", "disable-shared-experts-fusion",
    "flashinfer-mla-disable-ragged", "disable-chunked-prefix-cache",
    "enable-attn-tp-input-scattered", "disable-cuda-graph-padding",
    "disable-piecewise-cuda-graph", "enforce-piecewise-cuda-graph", "enable-torch-compile",
    "enable-two-batch-overlap", "enable-single-batch-overlap", "enable-eplb", "enable-lora",
    "enable-lora-overlap-loading", "enable-dynamic-chunking", "enable-prefill-delayer",
    "enable-dynamic-batch-tokenizer", "enable-tokenizer-batch-encode",
    "disable-tokenizer-batch-decode", "disable-hybrid-swa-memory", "enable-dp-lm-head",
    "enable-fp32-lm-head", "enable-return-hidden-states", "enable-return-routed-experts",
    "enable-deterministic-inference", "triton-attention-reduce-in-fp32",
    "enable-fused-grouped-gemm-combine", "enable-aiter-allreduce-fusion",
    "disable-flashinfer-cutlass-moe-fp4-allgather", "enable-flashinfer-cutlass-moe",
    "enable-flashinfer-cutedsl-moe", "enable-flashinfer-trtllm-moe",
    "enable-triton-kernel-moe", "enable-flashinfer-mxfp4-moe", "prefill-round-robin-balance",
    "enable-pdmux", "enable-deepep-waterfill", "enable-dsa-prefill-context-parallel",
    "enable-ep-moe", "enable-deepep-moe", "enable-torch-compile-debug-mode",
    "enable-elastic-expert-backup", "elastic-ep-rejoin",
}  # fmt: skip

IDLE = {**listed(_IDLE), **listed(_DRAFT_IDLE)}
IDLE_SWITCHES = listed(_IDLE_SWITCHES)
TABLE = Table(
    engine="sglang",
    separator="-",
    aliases=_ALIASES,
    switches=frozenset({*IDLE_SWITCHES, *_SWITCHES}),
    lists=frozenset(
        {
            "cuda-graph-bs", "lora-paths", "lora-target-modules", "log-requests-target",
            "bucket-time-to-first-token", "bucket-inter-token-latency",
            "bucket-e2e-request-latency", "prompt-tokens-buckets", "generation-tokens-buckets",
            "numa-node", "prefill-delayer-forward-passes-buckets",
            "prefill-delayer-wait-seconds-buckets", "custom-weight-loader",
            "tokenizer-metrics-allowed-custom-labels",
            "uvicorn-access-log-exclude-prefixes", "piecewise-cuda-graph-tokens",
        }
    ),
    objects=frozenset(),
    positional="model-path",
    config="config",
    overrides=False,
)  # fmt: skip


def read(given: Given) -> EngineCommand:
    """The deployment of a command of SGLang. Raises `InputError`."""
    name = model(given, "model-path", "--model-path MODEL")
    kinds = ("tensor", "pipeline", "data", "expert")
    tp, pp, dp, ep = (given.count(f"{kind}-parallel-size") or 1 for kind in kinds)
    exchange = given.text("moe-a2a-backend")
    if exchange is not None and exchange not in ("none", *_SPREADING):
        allowed = ", ".join(("none", *_SPREADING))
        given.fault("moe-a2a-backend", f"unknown value {exchange!r}", allowed)
    spreads = [given.switch(key) or False for key in ("enable-ep-moe", "enable-deepep-moe")]
    whole = tp if exchange in _SPREADING or any(spreads) else ep
    shares = given.switch("enable-dp-attention") or False
    only(given, _ONLY)
    if shares and tp % dp:
        given.fault("data-parallel-size", f"{dp} does not divide {tp} ranks", "a divisor of --tp")
    if shares and dp > 1:
        ranks = dp
        layout = Layout(max(1, tp // dp), pp, dp, whole)
        spread = Spread(layout, layout)
        for key in ("chunked-prefill-size", "max-running-requests"):
            if given.has(key):
                given.note(f"--{key} is divided by the {dp} ranks of attention")
    else:
        ranks = 1
        spread = Spread(Layout(tp, pp, 1, whole), Layout(tp, pp), dp, dp)
    given.warn(_UNMODELED)
    given.refuse(_REFUSED, _REFUSED_HELP)
    return finished(
        "sglang", given, IDLE, IDLE_SWITCHES, name, spread,
        formats(given, "quantization", _FORMATS), cache(given, "kv-cache-dtype", _CACHES),
        _choices(given, ranks),
    )  # fmt: skip


def _choices(given: Given, ranks: int) -> Choices:
    chunk, chunked = _chunk(given)
    running = given.count("max-running-requests")
    block = given.count("page-size")
    capacity = given.count("max-total-tokens")
    order = given.text("schedule-policy")
    return Choices(
        sequences=None if running is None else max(1, running // ranks),
        tokens=None if chunk is None else max(1, chunk // ranks),
        longest=given.count("context-length"),
        block=block,
        blocks=None if capacity is None else max(1, capacity // (block or 1)),
        memory=fraction(given, "mem-fraction-static"),
        caching=_off(given, "disable-radix-cache"),
        chunked=chunked,
        asynchronous=_off(given, "disable-overlap-schedule"),
        graphs=not (given.switch("disable-cuda-graph") or False),
        priority=_priority(given),
        prefill_tokens=given.count("max-prefill-tokens"),
        conservativeness=_conservativeness(given),
        mixed_chunks=given.switch("enable-mixed-chunk"),
        longest_prefix=None if order is None else order == "lpm",
        drafts=_drafts(given),
        drafter=_drafter(given),
    )


def _conservativeness(given: Given) -> float | None:
    """Factor on the part of outputs for which room is kept."""
    found = given.number("schedule-conservativeness")
    if found is not None and not 0 <= found <= 100:
        given.fault("schedule-conservativeness", f"invalid: {found:g}", "0 to 100")
        return None
    return found


def _drafter(given: Given) -> str:
    """Source of drafts."""
    words = {"EAGLE": "eagle", "EAGLE3": "eagle", "NEXTN": "mtp", "NGRAM": "ngram"}
    return words.get(str(given.value("speculative-algorithm")), "draft_model")


def _off(given: Given, key: str) -> bool | None:
    """`False` where a switch turns something off, `None` for the engine's default."""
    return False if given.switch(key) else None


def _chunk(given: Given) -> tuple[int | None, bool | None]:
    """Tokens of a chunk, and whether prompts are cut."""
    said = given.keys.get("chunked-prefill-size")
    if said is not None and str(said.value) == "-1":
        given.value("chunked-prefill-size")
        return None, False
    return given.count("chunked-prefill-size"), None


def _priority(given: Given) -> bool:
    """Whether requests are ordered by priority, the smallest first."""
    found = given.switch("enable-priority-scheduling") or False
    first = given.switch("schedule-low-priority-values-first") or False
    if found and not first:
        given.note("the smallest priority is the most urgent one here; SGLang takes the largest")
    return found


def _drafts(given: Given) -> int:
    """Drafted tokens: those of a chain."""
    method = given.word(
        "speculative-algorithm", ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
    )
    steps, count = "speculative-num-steps", "speculative-num-draft-tokens"
    if method is None:
        for key in (steps, count):
            if given.has(key):
                given.fault(key, "has no --speculative-algorithm", "--speculative-algorithm EAGLE")
        return 0
    if given.has(steps):
        found = drafts(given, steps)
        total = given.count(count)
        if total is not None and found and total != found + 1:
            message = f"{total} tokens after {found} steps: a tree of drafts is not modeled"
            given.fault(count, message, f"{found + 1}")
        return found
    if given.has(count):
        return max(0, drafts(given, count) - 1)
    given.fault(
        steps, "is missing: the engine chooses it by the model", "--speculative-num-steps N"
    )
    return 0
