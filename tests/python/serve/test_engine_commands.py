"""Command lines of engines: drawn deployments written as commands come back, published commands
are read, and what is not known is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from thorough import usually

from armillary.errors import InputError
from armillary.serve import Choices, Layout, Precision, flags_sglang, flags_trtllm, flags_vllm
from armillary.serve.command import read_command, read_command_file

VLLM_FLAGS = """
    model runner convert tokenizer tokenizer-mode trust-remote-code dtype seed hf-config-path
    allowed-local-media-path allowed-media-domains revision code-revision tokenizer-revision
    max-model-len quantization allow-deprecated-quantization enforce-eager
    enable-return-routed-experts max-logprobs logprobs-mode disable-sliding-window
    disable-cascade-attn skip-tokenizer-init enable-prompt-embeds served-model-name config-format
    hf-token hf-overrides pooler-config generation-config override-generation-config
    enable-sleep-mode model-impl override-attention-dtype logits-processors io-processor-plugin
    renderer-num-workers load-format download-dir safetensors-load-strategy
    model-loader-extra-config ignore-patterns use-tqdm-on-load pt-load-map-location
    attention-backend reasoning-parser reasoning-parser-plugin distributed-executor-backend
    pipeline-parallel-size master-addr master-port nnodes node-rank distributed-timeout-seconds
    tensor-parallel-size decode-context-parallel-size dcp-comm-backend
    dcp-kv-cache-interleave-size cp-kv-cache-interleave-size prefill-context-parallel-size
    data-parallel-size data-parallel-rank data-parallel-start-rank data-parallel-size-local
    data-parallel-address data-parallel-rpc-port data-parallel-backend data-parallel-hybrid-lb
    data-parallel-external-lb enable-expert-parallel enable-ep-weight-filter all2all-backend
    enable-dbo ubatch-size enable-elastic-ep dbo-decode-token-threshold
    dbo-prefill-token-threshold disable-nccl-for-dp-synchronization enable-eplb eplb-config
    expert-placement-strategy max-parallel-loading-workers ray-workers-use-nsight
    disable-custom-all-reduce worker-cls worker-extension-cls block-size gpu-memory-utilization
    kv-cache-memory-bytes kv-cache-dtype num-gpu-blocks-override enable-prefix-caching
    prefix-caching-hash-algo calculate-kv-scales kv-cache-dtype-skip-layers
    kv-sharing-fast-prefill mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size
    mamba-cache-mode kv-offloading-size kv-offloading-backend offload-backend cpu-offload-gb
    cpu-offload-params offload-group-size offload-num-in-group offload-prefetch-step
    offload-params language-model-only limit-mm-per-prompt enable-mm-embeds media-io-kwargs
    mm-processor-kwargs mm-processor-cache-gb mm-processor-cache-type
    mm-shm-cache-max-object-size-mb mm-encoder-only mm-encoder-tp-mode mm-encoder-attn-backend
    interleave-mm-strings skip-mm-profiling video-pruning-rate mm-tensor-ipc enable-lora max-loras
    max-lora-rank lora-dtype enable-tower-connector-lora max-cpu-loras fully-sharded-loras
    lora-target-modules default-mm-loras specialize-active-lora show-hidden-metrics-for-version
    otlp-traces-endpoint collect-detailed-traces kv-cache-metrics kv-cache-metrics-sample
    cudagraph-metrics enable-layerwise-nvtx-tracing enable-mfu-metrics
    enable-logging-iteration-details max-num-batched-tokens max-num-seqs
    max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold
    scheduling-policy enable-chunked-prefill disable-chunked-mm-input scheduler-cls
    scheduler-reserve-full-isl disable-hybrid-kv-cache-manager async-scheduling stream-interval
    cudagraph-capture-sizes max-cudagraph-capture-size enable-flashinfer-autotune moe-backend
    speculative-config kv-transfer-config kv-events-config ec-transfer-config compilation-config
    attention-config reasoning-config kernel-config additional-config structured-outputs-config
    profiler-config optimization-level performance-mode weight-transfer-config disable-log-stats
    aggregate-engine-logging fail-on-environ-validation shutdown-timeout gdn-prefill-backend
    enable-log-requests"""
"""Flags of vLLM 0.19.0 (vllm/engine/arg_utils.py, `add_cli_args`)."""


TRTLLM_FLAGS = """
    tokenizer custom_tokenizer host port backend custom_module_dirs log_level max_beam_width
    max_batch_size max_num_tokens max_seq_len tensor_parallel_size tp_size pipeline_parallel_size
    pp_size context_parallel_size cp_size moe_expert_parallel_size ep_size
    moe_cluster_parallel_size cluster_size gpus_per_node free_gpu_memory_fraction
    kv_cache_free_gpu_memory_fraction num_postprocess_workers trust_remote_code revision config
    extra_llm_api_options reasoning_parser tool_parser metadata_server_config_file server_role
    fail_fast_on_attention_window_too_large otlp_traces_endpoint disagg_cluster_uri
    enable_chunked_prefill media_io_kwargs chat_template"""
"""Flags of TensorRT-LLM (tensorrt_llm/commands/serve.py)."""


@pytest.mark.parametrize(
    ("start", "names", "flags"),
    [("vllm serve m", VLLM_FLAGS, flags_vllm), ("trtllm-serve m", TRTLLM_FLAGS, flags_trtllm)],
)
def test_all_flags_are_known(start: str, names: str, flags: ModuleType) -> None:
    """None of them is refused as unknown, whatever else is wrong with it."""
    for name in names.split():
        value = "" if name in flags.TABLE.switches else "1"
        try:
            read_command(f"{start} --{name} {value}")
        except InputError as error:
            assert "unknown flag" not in str(error), name


@pytest.mark.parametrize("flags", [flags_vllm, flags_sglang, flags_trtllm])
def test_a_flag_is_in_one_table(flags: ModuleType) -> None:
    names = ("IDLE", "IDLE_SWITCHES", "_UNMODELED", "_REFUSED", "_ONLY")
    tables = [set(getattr(flags, name)) for name in names]
    for place, one in enumerate(tables):
        for other in tables[place + 1 :]:
            assert not one & other
    switches = flags.TABLE.switches
    assert not switches & tables[0], "a flag with a value can't stand alone"
    assert switches >= tables[1]


class Writer:
    """Writes drawn deployments as words of an engine's command."""

    def __init__(self, source: random.Random, flags: dict[str, list[str]]) -> None:
        self.source, self.flags = source, flags
        self.words: list[list[str]] = []

    def add(self, key: str, value: object = None) -> None:
        """A flag, by one of its names and in one of its forms."""
        name = self.source.choice(self.flags[key])
        if name.startswith("--") and self.source.random() < 0.3:
            swapped = name[2:].replace("-", "_") if "-" in name[2:] else name[2:].replace("_", "-")
            name = f"--{swapped}"
        if value is None:
            self.words.append([name])
        elif self.source.random() < 0.5:
            self.words.append([f"{name}={value}"])
        else:
            self.words.append([name, str(value)])

    def text(self, start: str) -> str:
        """The command, with flags in any order."""
        self.source.shuffle(self.words)
        return " ".join([start, *(word for words in self.words for word in words)])


def maybe(source: random.Random, *values: Any) -> Any:  # noqa: ANN401 - whatever is drawn
    """One of these values, or `None`, which is as likely as all of them."""
    return source.choice([None] * len(values) + [*values])


COUNTS = {
    "sequences": (1, 256, 1024), "tokens": (512, 8192), "longest": (4096, 131072),
    "block": (16, 64), "memory": (0.5, 0.92),
}  # fmt: skip


def drawn_counts(source: random.Random) -> dict[str, Any]:
    return {key: maybe(source, *values) for key, values in COUNTS.items()}


@pytest.mark.parametrize("seed", range(usually(40, 2000)))
def test_commands_of_vllm_come_back(seed: int) -> None:
    source = random.Random(seed)
    write = Writer(source, {
        "sequences": ["--max-num-seqs"], "tokens": ["--max-num-batched-tokens"],
        "longest": ["--max-model-len"], "block": ["--block-size"],
        "memory": ["--gpu-memory-utilization"], "tp": ["--tensor-parallel-size", "-tp"],
        "pp": ["--pipeline-parallel-size", "-pp"], "dp": ["--data-parallel-size", "-dp"],
        "ep": ["--enable-expert-parallel", "-ep"], "host": ["--host"],
        "quantization": ["--quantization", "-q"], "cache": ["--kv-cache-dtype"],
        "eager": ["--enforce-eager"], "policy": ["--scheduling-policy"],
        "long": ["--long-prefill-token-threshold"], "blocks": ["--num-gpu-blocks-override"],
        "caching": ["--enable-prefix-caching"], "no caching": ["--no-enable-prefix-caching"],
        "chunked": ["--enable-chunked-prefill"], "no chunked": ["--no-enable-chunked-prefill"],
        "async": ["--async-scheduling"], "no async": ["--no-async-scheduling"],
        "drafts": ["--speculative-config", "-sc"],
        "dotted": ["--speculative-config.num_speculative_tokens"],
    })  # fmt: skip
    counts = drawn_counts(source)
    sizes = {key: source.choice([1, 2, 4]) for key in ("tp", "pp", "dp")}
    for key, value in {**counts, **sizes, "host": "0.0.0.0"}.items():
        if value is not None:
            write.add(key, value)
    has_whole, eager, has_priority = (source.random() < 0.5 for _ in range(3))
    for name, is_there in (("ep", has_whole), ("eager", eager)):
        if is_there:
            write.add(name)
    if has_priority:
        write.add("policy", "priority")
    switches = {key: maybe(source, True, False) for key in ("caching", "chunked", "async")}
    for key, switch in switches.items():
        if switch is not None:
            write.add(key if switch else f"no {key}")
    long, blocks = source.choice([0, 2048]), maybe(source, 5000)
    write.add("long", long)
    if blocks:
        write.add("blocks", blocks)
    drafts, drafter = source.choice([0, 1, 5]), "draft_model"
    if drafts and source.random() < 0.5:
        write.add("dotted", drafts)
    elif drafts:
        method, drafter = source.choice(
            [("ngram", "ngram"), ("eagle3", "eagle"), ("deepseek_mtp", "mtp"),
             ("mtp", "mtp"), ("draft_model", "draft_model")]
        )  # fmt: skip
        config = json.dumps({"method": method, "num_speculative_tokens": drafts})
        write.words.append([source.choice(["--speculative-config", "-sc"]), f"'{config}'"])
    form = maybe(source, "fp8", "awq", "mxfp4")
    if form is not None:
        write.add("quantization", form)
    write.add("cache", cache := source.choice(["auto", "fp8", "fp8_e5m2", "bfloat16"]))
    start = source.choice(["vllm serve m/x", "python -m vllm.entrypoints.openai.api_server m/x"])
    found = read_command(write.text(start))
    ranks = sizes["tp"] * sizes["dp"]
    assert (found.engine, found.model) == ("vllm", "m/x")
    assert found.spread(True) == (Layout(**sizes, ep=ranks if has_whole else 1), 1)
    assert found.spread(False) == (Layout(sizes["tp"], sizes["pp"]), sizes["dp"])
    assert found.choices == Choices(
        **counts, caching=switches["caching"], chunked=switches["chunked"],
        asynchronous=switches["async"], graphs=not eager, priority=has_priority,
        long_prefill=long, drafts=drafts, blocks=blocks, drafter=drafter,
    )  # fmt: skip
    formats = {None: (None, None), "fp8": ("fp8", "fp8"), "awq": ("int4", "int4"),
               "mxfp4": ("bf16", "mxfp4")}  # fmt: skip
    assert (found.weights, found.experts) == formats[form]
    assert found.cache == {"auto": None, "bfloat16": "bf16"}.get(cache, "fp8")
    assert [*found.idle] == [key for key in found.idle if key in ("host",) or "." in key]


@pytest.mark.parametrize("seed", range(usually(40, 2000)))
def test_commands_of_sglang_come_back(seed: int) -> None:
    source = random.Random(seed)
    write = Writer(source, {
        "sequences": ["--max-running-requests"], "tokens": ["--chunked-prefill-size"],
        "longest": ["--context-length"], "block": ["--page-size"],
        "memory": ["--mem-fraction-static"], "model": ["--model-path", "--model"],
        "tp": ["--tp", "--tp-size", "--tensor-parallel-size"],
        "pp": ["--pp-size", "--pipeline-parallel-size"], "dp": ["--dp", "--dp-size"],
        "ep": ["--ep", "--ep-size"], "shares": ["--enable-dp-attention"],
        "exchange": ["--moe-a2a-backend"], "port": ["--port"], "trust": ["--trust-remote-code"],
        "caching": ["--disable-radix-cache"], "graphs": ["--disable-cuda-graph"],
        "asynchronous": ["--disable-overlap-schedule"], "steps": ["--speculative-num-steps"],
        "method": ["--speculative-algorithm"], "drafts": ["--speculative-num-draft-tokens"],
        "prefill_tokens": ["--max-prefill-tokens"], "mixed": ["--enable-mixed-chunk"],
        "conservativeness": ["--schedule-conservativeness"], "order": ["--schedule-policy"],
    })  # fmt: skip
    counts = drawn_counts(source)
    dp, pp = source.choice([1, 2, 4]), source.choice([1, 2])
    shares = dp > 1 and source.random() < 0.5
    tp = dp * source.choice([1, 2]) if shares else source.choice([1, 2, 8])
    exchange = maybe(source, "none", "deepep")
    ep = source.choice([1, tp])
    given = {"model": "m/x", "tp": tp, "pp": pp, "dp": dp, "ep": ep, "port": 3, **counts}
    for key, value in given.items():
        if value is not None:
            write.add(key, value)
    if exchange is not None:
        write.add("exchange", exchange)
    offs = {key: source.random() < 0.5 for key in ("caching", "graphs", "asynchronous")}
    for key, is_there in {**offs, "shares": shares, "trust": True}.items():
        if is_there:
            write.add(key)
    own = {
        "prefill_tokens": maybe(source, 4096, 16384), "conservativeness": maybe(source, 0.3, 1.5),
        "order": maybe(source, "lpm", "fcfs"),
    }  # fmt: skip
    for key, value in own.items():
        if value is not None:
            write.add(key, value)
    if mixed := source.random() < 0.5:
        write.add("mixed")
    order = own.pop("order")
    drafts, drafter = source.choice([0, 3]), "draft_model"
    if drafts:
        method, drafter = source.choice(
            [("EAGLE", "eagle"), ("NEXTN", "mtp"), ("NGRAM", "ngram"),
             ("STANDALONE", "draft_model")]
        )  # fmt: skip
        write.add("method", method)
        write.add("steps", drafts)
        if source.random() < 0.5:
            write.add("drafts", drafts + 1)
    found = read_command(write.text("python3 -m sglang.launch_server"))
    whole = tp if exchange == "deepep" else ep
    layout = Layout(tp // dp, pp, dp, whole) if shares else Layout(tp, pp, 1, whole)
    assert found.spread(True) == (layout, 1 if shares else dp)
    if not shares:
        assert found.spread(False) == (Layout(tp, pp), dp)
    ranks = dp if shares else 1
    for key in ("sequences", "tokens"):
        value = counts[key]
        counts[key] = None if value is None else max(1, value // ranks)
    assert found.choices == Choices(
        **counts, caching=False if offs["caching"] else None, graphs=not offs["graphs"],
        asynchronous=False if offs["asynchronous"] else None, drafts=drafts, drafter=drafter,
        mixed_chunks=True if mixed else None, **own,
        longest_prefix=None if order is None else order == "lpm",
    )  # fmt: skip
    assert {*found.idle} == {"port", "trust-remote-code"}


@pytest.mark.parametrize("seed", range(usually(40, 2000)))
def test_commands_of_tensorrt_llm_come_back(seed: int, tmp_path: Path) -> None:
    """Any of the keys may be in the file, and the file overrides the command."""
    source = random.Random(seed)
    flags = {
        "sequences": "max_batch_size", "tokens": "max_num_tokens", "longest": "max_seq_len",
        "memory": "free_gpu_memory_fraction", "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size", "ep": "moe_expert_parallel_size",
    }  # fmt: skip
    short = {"tp": ["--tp_size"], "pp": ["--pp_size"], "ep": ["--ep_size"]}
    write = Writer(source, {key: [f"--{name}", *short.get(key, [])] for key, name in flags.items()})
    counts = drawn_counts(source)
    tp, pp = source.choice([1, 4, 8]), source.choice([1, 2])
    ep = source.choice([1, tp])
    file: dict[str, object] = {}
    cached: dict[str, object] = {}
    for key, value in {**counts, "tp": tp, "pp": pp, "ep": ep}.items():
        if value is None:
            continue
        if key == "block":
            cached["tokens_per_block"] = value
        elif source.random() < 0.3:
            write.add(key, 1 if key != "memory" else 0.3)
            (cached if key == "memory" else file)[flags[key]] = value
        else:
            write.add(key, value)
    shares, chunked, overlap, reuse = (maybe(source, True, False) for _ in range(4))
    for name, switch in (("enable_attention_dp", shares), ("enable_chunked_prefill", chunked),
                         ("disable_overlap_scheduler", overlap)):  # fmt: skip
        if switch is not None:
            file[name] = switch
    cached |= {} if reuse is None else {"enable_block_reuse": reuse}
    cached |= {"dtype": "fp8"} if (is_narrow := source.random() < 0.5) else {}
    file |= {"kv_cache_config": cached} if cached else {}
    drafts = source.choice([0, 2])
    if drafts:
        file["speculative_config"] = {"decoding_type": "MTP", "num_nextn_predict_layers": drafts}
    graphs = source.random() < 0.5
    file["cuda_graph_config"] = {"enable_padding": True} if graphs else None
    (tmp_path / "extra.yml").write_text(json.dumps(file), encoding="utf-8")
    script = tmp_path / "run.sh"
    flag = source.choice(["--extra_llm_api_options", "--config"])
    script.write_text(write.text(f"trtllm-serve m/x {flag} extra.yml"), encoding="utf-8")
    found = read_command_file(script)
    layout = Layout(1, pp, tp, ep) if shares else Layout(tp, pp, 1, ep)
    assert found.spread(True) == (layout, 1)
    assert found.choices == Choices(
        **counts, caching=reuse, chunked=chunked, graphs=graphs, drafts=drafts,
        drafter="mtp" if drafts else "draft_model",
        asynchronous=None if overlap is None else not overlap,
    )  # fmt: skip
    assert found.cache == ("fp8" if is_narrow else None)


def test_a_script_with_variables_is_read(tmp_path: Path) -> None:
    """As NVIDIA's examples/serve/deepseek_r1_reasoning_parser.sh is written, with variables."""
    (tmp_path / "config.yml").write_text(
        "cuda_graph_config:\n    enable_padding: true\n    max_batch_size: 512\n"
        "enable_attention_dp: true\nkv_cache_config:\n    dtype: fp8\n"
        "    free_gpu_memory_fraction: 0.8\nstream_interval: 10\n"
        "moe_config:\n    backend: DEEPGEMM\n",
        encoding="utf-8",
    )
    script = tmp_path / "run.sh"
    script.write_text(
        "#! /usr/bin/env bash\nTP=8\nMODEL=${MODEL:-deepseek-ai/DeepSeek-R1}\nexport X=1\n"
        "echo start\ntrtllm-serve \\\n    $MODEL \\\n    --host localhost --port 8000 \\\n"
        "    --trust_remote_code \\\n    --max_batch_size 1024 --max_num_tokens 8192 \\\n"
        "    --tp_size $TP --ep_size $TP --pp_size 1 \\\n    --config ./config.yml \\\n"
        "    --reasoning_parser deepseek-r1\n",
        encoding="utf-8",
    )
    found = read_command_file(script)
    assert found.model == "deepseek-ai/DeepSeek-R1"
    assert "model: MODEL is taken as deepseek-ai/DeepSeek-R1, its default" in found.notes
    assert found.spread(True) == (Layout(1, 1, 8, 8), 1)
    assert (found.cache, found.choices.memory, found.choices.sequences) == ("fp8", 0.8, 1024)
    assert any("moe_config.backend" in note for note in found.notes)
    assert {*found.idle} == {"host", "port", "trust_remote_code", "reasoning_parser"}


def test_other_ways_to_start_are_known(tmp_path: Path) -> None:
    image = "docker run --gpus all -p 80:80 vllm/vllm-openai:v0.19.0 --model m -tp 4 --api-key a b"
    assert read_command(image).spread(False) == (Layout(tp=4), 1)
    (tmp_path / "c.yaml").write_text(
        "model: m\ntensor-parallel-size: 2\nmax-model-len: 8k\nenforce-eager: true\nport: 1\n",
        encoding="utf-8",
    )
    text = "VLLM_USE_V1=1 vllm serve --config c.yaml --tensor-parallel-size 4 -O3"
    found = read_command(text, file=str(tmp_path / "run.sh"))
    assert found.model == "m"
    assert found.dense_layout.tp == 4, "the command overrides the file"
    assert (found.choices.longest, found.choices.graphs) == (8000, False)
    assert read_command("vllm serve m --max-num-batched-tokens 8K").choices.tokens == 8192
    assert read_command("vllm serve m --max-model-len auto").choices.longest is None
    router = "python -m sglang_router.launch_server --model-path m --dp 2 --tp 2"
    assert read_command(router).spread(False) == (Layout(tp=2), 2)
    for flag in ("--enable-deepep-moe", "--enable-ep-moe", "--ep 8"):
        old = read_command(f"python -m sglang.launch_server --model-path m --tp 8 {flag}")
        assert old.spread(True) == (Layout(tp=8, ep=8), 1)
    chunks = read_command("sglang serve --model-path m --chunked-prefill-size -1")
    assert chunks.choices.chunked is False
    published = Precision("fp8", "nvfp4", "fp8")
    assert found.precision(published) == published
    said = read_command("vllm serve m -q fp8").precision(published)
    assert said == Precision("fp8", "fp8", "fp8")
    said = read_command("vllm serve m -q mxfp4 --kv-cache-dtype fp8").precision(Precision("int4"))
    assert said == Precision("bf16", "mxfp4", "fp8")


REFUSED = [
    ("ls -l", "starts no engine that is known"),
    ("vllm serve a\nvllm serve b", "starts 2 engines"),
    ("vllm serve", "model: is missing (allowed: vllm serve MODEL)"),
    ("vllm serve $M", "model: has a value that the file does not say: $M"),
    ("vllm serve m --tensor-parallel-size x", "--tensor-parallel-size: invalid count: 'x'"),
    ("vllm serve m -tp 0", "--tensor-parallel-size: invalid count: '0'"),
    ("vllm serve m -tp", "--tensor-parallel-size: has no value"),
    ("vllm serve m --max-num-seq 3", "--max-num-seq: unknown flag (allowed: --max-num-seqs"),
    ("vllm serve m --speed 3", "--speed: unknown flag"),
    ("vllm serve m more words", "'more' belongs to no flag"),
    ("vllm serve m --gpu-memory-utilization 90", "90 is not a part of the memory"),
    ("vllm serve m --quantization compressed-tensors", "does not say the format of the weights"),
    ("vllm serve m --kv-cache-dtype int3", "--kv-cache-dtype: unknown format 'int3'"),
    ("vllm serve m --dtype float32", "--dtype: 'float32': activations have 16 bits"),
    ("vllm serve m --cpu-offload-gb 4", "weights in the memory of the host are not modeled"),
    ("vllm serve m --kv-cache-memory-bytes 1G", "the bytes of the cache are given"),
    ("vllm serve m --kv-transfer-config '{}'", "keys and values from other engines"),
    ("vllm serve m --decode-context-parallel-size 2", "parallelism over contexts"),
    ("vllm serve m --scheduling-policy lifo", "--scheduling-policy: unknown value 'lifo'"),
    ("vllm serve m --speculative-config '{'", "--speculative-config: is not JSON"),
    ("vllm serve m --speculative-config 3", "--speculative-config: is not a mapping"),
    ("vllm serve m --speculative-config '{\"method\": \"mtp\"}'", "tokens: is missing"),
    ("vllm serve m -sc.num_speculative_tokens 99", "99 drafted tokens"),
    ("vllm serve m --speculative-config.width 3", "unknown flag"),
    ("vllm serve m --max-num-batched-tokens 1.5K", "invalid count: '1.5K'"),
    ("vllm serve m --enable-chunked-prefill=maybe", "--enable-chunked-prefill: has the value"),
    ("vllm serve m --config no.yml", "can't be read"),
    ("vllm serve 'm", "a quote is not closed"),
    ("python -m sglang.launch_server --tp 8", "model-path: is missing"),
    ("python -m sglang.launch_server --model m --tp 8 --dp 3 --enable-dp-attention",
     "--data-parallel-size: 3 does not divide 8 ranks"),
    ("python -m sglang.launch_server --model m --moe-a2a-backend smoke", "unknown value 'smoke'"),
    ("python -m sglang.launch_server --model m --schedule-policy lof", "another order of requests"),
    ("python -m sglang.launch_server --model m --disaggregation-mode prefill", "two commands"),
    ("python -m sglang.launch_server --model m --enable-hierarchical-cache", "leave the GPU"),
    ("python -m sglang.launch_server --model m --speculative-eagle-topk 4", "a tree of drafts"),
    ("python -m sglang.launch_server --model m --speculative-num-steps 4", "has no --speculative"),
    ("python -m sglang.launch_server --model m --speculative-algorithm EAGLE", "is missing"),
    ("python -m sglang.launch_server --model m --speculative-algorithm EAGLE "
     "--speculative-num-steps 3 --speculative-num-draft-tokens 8", "8 tokens after 3 steps"),
    ("python -m sglang.launch_server --model m --quantization gguf", "does not say the format"),
    ("python -m sglang.launch_server --model m --page-size -1", "--page-size: invalid count"),
    ("python -m sglang.launch_server --model m --max-tokens 9", "--max-tokens: unknown flag"),
    ("trtllm-serve", "model: is missing"),
    ("trtllm-serve m --backend tensorrt", "other backends have other kernels"),
    ("trtllm-serve m --max_beam_width 4", "a request has one answer"),
    ("trtllm-serve m --tp_size many", "--tensor_parallel_size: invalid count: 'many'"),
    ("trtllm-serve m --cp_size 2", "parallelism over contexts"),
    ("trtllm-serve m --server_role context", "two commands"),
    ("trtllm-serve m --kv_cache_free_gpu_memory_fraction 2", "2 is not a part of the memory"),
    ("trtllm-serve m --max_tokens 3", "--max_tokens: unknown flag"),
    ("trtllm-serve m --config no.yml", "can't be read"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_is_not_known_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_command(text)
    assert said in str(caught.value)
    assert all(each.help for each in caught.value.problems)


FILES = [
    ("[1, 2]", "is not a mapping"),
    ("a: b: c", "is not YAML"),
    ("x: &a 1\ny: *a", "uses an alias"),
    ("speed: 3", "extra.yml line 1: --speed: unknown flag"),
    ("max_batch_size: many", "extra.yml line 1: --max_batch_size: invalid count: 'many'"),
    ("max_batch_size: 1\nmax_batch_size: 2", "is given twice"),
    ("enable_attention_dp: 3", "--enable_attention_dp: has the value 3"),
    ("kv_cache_config: {dtype: int3}", "unknown format 'int3'"),
    ("kv_cache_config: {max_tokens: 500}", "has no tokens_per_block"),
    ("kv_cache_config: {host_cache_size: 5}", "leave the GPU"),
    ("quant_config: {quant_algo: W1}", "does not say the format of the weights"),
    ("speculative_config: {decoding_type: MTP}", "speculative_config.max_draft_len: is missing"),
    ("moe_expert_parallel_size: 4\nmoe_tensor_parallel_size: 4", "4 x 4"),
    ("sparse_attention_config: {algorithm: x}", "sparse attention is not modeled"),
]


@pytest.mark.parametrize(("text", "said"), FILES)
def test_faults_of_a_file_have_its_lines(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "extra.yml").write_text(text, encoding="utf-8")
    script = tmp_path / "run.sh"
    script.write_text("trtllm-serve m --extra_llm_api_options extra.yml\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_command_file(script)
    assert said in str(caught.value)


def test_faults_come_all_at_once_with_their_lines(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("vllm serve m \\\n  -tp 0 \\\n  --speed 3\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_command_file(script)
    assert [each.place for each in caught.value.problems] == [
        "line 2: --tensor-parallel-size",
        "line 3: --speed",
    ]
