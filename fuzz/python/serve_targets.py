"""Readers of serving that are fuzzed: traces of requests, results of benchmarks, and command lines
of engines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from target import Files, Target


def _lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


_VLLM = {
    "backend": "vllm", "model_id": "m", "num_prompts": 3, "request_rate": "inf", "burstiness": 1.0,
    "max_concurrency": None, "duration": 3.5, "completed": 2, "failed": 1,
    "total_input_tokens": 60, "request_throughput": 0.5, "input_lens": [20, 40, 30],
    "output_lens": [3, 2, 0], "ttfts": [0.25, 0.5, 0.0], "itls": [[0.125, 0.125], [0.25], []],
    "start_times": [100.5, 100.25, 101.0], "errors": ["", "", "refused"],
}  # fmt: skip


def _record(start: int, phase: str = "profiling", **metrics: object) -> dict[str, object]:
    values = {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "output_sequence_length": {"value": 9, "unit": "tokens"},
        "time_to_first_token": {"value": 250.0, "unit": "ms"},
        "request_latency": {"value": 1.5, "unit": "s"},
    }
    return {
        "metadata": {"request_start_ns": start, "benchmark_phase": phase, "turn_index": 0},
        "metrics": values | metrics,
        "error": None,
    }


SAMPLES: dict[str, bytes] = {
    "azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    b"2023-11-16 18:15:50.9951690,396,109\n2023-11-17 00:00:01,20,1\n",
    "azure 2024": b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.017335+00:00,2399,0\n",
    "burstgpt": b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    b"5,ChatGPT,472,18,490,Conversation log\n118.5,GPT-4,417,276,693,API log\n",
    "plain": b"arrival_s,input_tokens,output_tokens,priority,prefix,prefix_tokens,ttft_s,e2e_s\n"
    b"0.5,100,7,0,chat,64,0.25,1.5\n0.75,64,9,-1,chat,64,0.5,2\n2,30,1,3,,,0.1,0.1\n",
    "conversations": b"t_s,input_tokens,output_tokens,session,think_s\n"
    b"0,40,7,a,\n1.5,64,9,b,\n,60,1,a,2.5\n,80,5,a,0\n,100,3,b,9\n0.25,8,8,,\n",
    "mooncake": _lines(
        {"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]},
        {"timestamp": 3000, "input_length": 1536, "output_length": 26, "hash_ids": [46, 47, 50]},
        {"timestamp": 3000.5, "input_length": 600, "output_length": 1, "hash_ids": [46]},
    ),
    "bailian": _lines(
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 33}
        | {"output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089, 1090, 7]},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.114, "input_length": 40}
        | {"output_length": 9, "type": "text", "turn": 2, "hash_ids": [1089, 1090]},
    ),
    "aiperf": _lines(_record(10**18 + 5), _record(10**18), _record(10**18 + 9, "warmup")),
    "llmservingsim": _lines(
        {"input_toks": 4, "output_toks": 5, "arrival_time_ns": 500, "input_tok_ids": [1, 2, 3, 4]},
        {"input_toks": 3, "output_toks": 2, "arrival_time_ns": 900, "input_tok_ids": [1, 2, 9]},
    ),
    "llmservingsim bench": _lines(
        {"request_id": "bench-0", "input_toks": 4, "output_toks": 5, "arrival_time": 1.7e9}
        | {"queued_ts": 27.5, "scheduled_ts": 28.0, "first_token_ts": 28.5, "last_token_ts": 30.0}
    ),
    "vllm": json.dumps(_VLLM, indent=1).encode(),
    "vllm loop": _lines(_VLLM | {"max_concurrency": 2}),
}
"""A small file of each format."""


def _load(folder: Path, files: Files) -> object:
    from armillary.serve.traces import read_load

    load = read_load(folder / next(iter(files)))
    assert load.arrivals is None or [*load.arrivals] == sorted(load.arrivals)
    assert all(length > 0 for each in load.requests for _, length in each.prompt)
    return load.longest


def _cases(*names: str) -> list[Files]:
    return [{"load": SAMPLES[name]} for name in names]


SCRIPT = (
    b"TP=2\nvllm serve ${MODEL:-meta-llama/Llama-3.1-8B} \\\n  --tensor-parallel-size $TP \\\n"
    b"  --max-num-seqs 256 --quantization fp8 --port 8000\n"
)
COMMANDS = (
    SCRIPT,
    b"TP=8\nvllm serve ${MODEL:-m/x} -tp $TP --max-num-seqs 256 --max_num_batched_tokens=8K \\\n"
    b"  --no-enable-prefix-caching --quantization fp8 --kv-cache-dtype fp8 -dp 2 -ep \\\n"
    b"  --gpu-memory-utilization 0.9 --max-model-len 32k --api-key a b --port 80 -O3 \\\n"
    b'  --speculative-config \'{"method": "mtp", "num_speculative_tokens": 3}\' \n',
    b"python3 -m sglang.launch_server --model-path m --tp 16 --dp 8 --enable-dp-attention \\\n"
    b"  --moe-a2a-backend deepep --chunked-prefill-size 65536 --mem-fraction-static 0.85 \\\n"
    b"  --speculative-algorithm EAGLE --speculative-num-steps 3 --quantization w4afp8 --ep 4\n",
    b"trtllm-serve m --max_batch_size 1024 --tp_size 8 --ep_size 8 --config ./extra.yml\n",
)
_EXTRA = b"""cuda_graph_config: {enable_padding: true}
enable_attention_dp: true
kv_cache_config: {dtype: fp8, free_gpu_memory_fraction: 0.8, tokens_per_block: 32}
quant_config: {quant_algo: NVFP4}
speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 3}
disable_overlap_scheduler: false
"""


def _command(folder: Path, _files: Files) -> object:
    from armillary.serve.command import read_command_file

    found = read_command_file(folder / "run.sh")
    return found.spread(True), found.precision(), found.notes


def _points(folder: Path, _files: Files) -> object:
    from armillary.serve.measured_points import read_points

    found = read_points(folder / "points.csv")
    assert all(each.user > 0 and each.gpu > 0 for each in found)
    return found


POINTS = (
    b'name,tokens/s/user,tokens/s/GPU\nTP 8,50.5,1200\n"TP 4, vLLM",31,2e3\n',
    b"\xef\xbb\xbftokens/s/GPU,tokens/s/user\r\n1200,50.5\r\n",
)

TARGETS = (
    Target("measured_points", lambda: [{"points.csv": each} for each in POINTS], _points),
    Target(
        "engine_commands",
        lambda: [{"run.sh": each, "extra.yml": _EXTRA} for each in COMMANDS],
        _command,
    ),
    Target(
        "load_tables",
        lambda: [
            *_cases("azure", "burstgpt", "plain", "conversations"),
            {"load": gzip.compress(SAMPLES["azure 2024"], mtime=0)},
        ],
        _load,
    ),
    Target("load_lines", lambda: _cases("mooncake", "bailian", "llmservingsim", "aiperf"), _load),
    Target("load_results", lambda: _cases("vllm", "vllm loop", "llmservingsim bench"), _load),
)
