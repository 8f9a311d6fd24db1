"""More readers that are fuzzed: plans, patterns, what benchmarks write, and other small files."""

from __future__ import annotations

import gzip
import io
import json
import struct
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory

from target import ROOT, Files, Target


def _plans() -> list[Files]:
    text = b"""version: 1
model: dlrm-small
ranks: 4
ranks_per_node: 2
tables:
- {name: t0, rows: 1000, columns: 64, scheme: row, ranks: 0-3, sizes: 250 250 250 250}
- {name: t1, rows: 100, columns: 64, scheme: column, ranks: 1 3, tier: host}
- {name: t2, rows: 10, columns: 64, scheme: table, ranks: "2"}
"""
    from armillary.model.sharding_plan import ShardingPlan, TablePlan
    from armillary.model.sharding_plan_file import as_json

    tables = TablePlan("t0", 1000, 64, "row", (0, 1)), TablePlan("t1", 10, 64, "table", (1,))
    made = as_json(ShardingPlan("dlrm-small", 2, 2, tables)).encode()
    return [{"plan.yml": text}, {"plan.json": made}]


def _plan(folder: Path, files: Files) -> object:
    from armillary.model.sharding_plan_file import as_yaml, read_plan

    return as_yaml(read_plan(folder / next(iter(files))))


BENCH = {
    "schema": "armillary.bench/1",
    "machine": {"processor": "made up", "cores": 2, "memory_bytes": 2**34, "load": 0.0},
    "processes": 2,
    "gemms": [
        {"name": "p", "batch": 1, "m": m, "n": n, "k": k, "us": 2 * m * n * k / 1e5}
        for m, n, k in ((64, 32, 16), (16, 32, 64), (64, 16, 32))
    ],
    "streams": [{"op": "copy", "bytes": 10**7, "us": 1000.0}],
    "embeddings": [{"op": "lookup", "bytes": 10**6, "us": 400.0}],
    "mlps": [
        {"name": "mlp", "samples": 64, "layers": [[16, 32]], "us": 90.0},
        {"op": "optimizer", "bytes": 10**6, "us": 500.0},
    ],
    "copies": [],
    "collectives": [
        {"transport": "exchange", "name": "all_to_all", "size": 2**at, "time": 9.0 + at, "ranks": 2}
        for at in (10, 16, 20)
    ],
    "model": "dlrm-small",
    "batch": 128,
    "parts": [{"name": "forward", "us": 5.0}],
}


def _bench(folder: Path, _files: Files) -> object:
    from armillary import InputError
    from armillary.calibrate.bench_file import read_bench
    from armillary.workload.dlrm_bench import read_parts

    path = str(folder / "bench.json")
    found = read_bench(path)
    if found is None:
        raise InputError([])
    platform = found.base()
    read_parts(path, "dlrm-small", 2, 64)
    return platform.describe(), found.gemm_table(1.0), [len(each) for each in found.groups]


def _patterns() -> list[Files]:
    return [
        {"flows.csv": b"source,destination,weight\n# all\n0,1,1\n1,0,2.5\n2,3,1e3\n"},
        {"flows.csv": b"0,1\n3, 2\n"},
        {"flows.csv": b'0,"1",1\r\n1,2,3\r\n'},
    ]


def _pattern(folder: Path, _files: Files) -> object:
    import armillary as arm
    from armillary.traffic.patterns import Pattern

    pattern = Pattern.parse(str(folder / "flows.csv"))
    ring = arm.Platform("Ring(4)", bandwidth="100 GB/s", latency="1 us")
    return arm.traffic(ring, [pattern], loads=[0.2], messages_max=1000, jobs=1)


def _sizes() -> list[Files]:
    return [
        {"sizes.csv": b"bytes,share\n# all\n0,0\n100,10%\n5000,0.5\n100000,1\n"},
        {"sizes.csv": b"64,1\n"},
        {"sizes.csv": b'"10",0.25\r\n1000,1.0\r\n'},
    ]


def _size(folder: Path, _files: Files) -> object:
    import armillary as arm
    from armillary.traffic import FlowSizes

    sizes = FlowSizes.parse(str(folder / "sizes.csv"))
    if sizes.mean > 1e6:  # its flows take long
        return sizes
    ring = arm.Platform("Ring(4)", bandwidth="100 GB/s", latency="1 us")
    return arm.traffic(ring, sizes=[sizes], networks=["flow"], loads=[0.2], messages_max=200)


def _gaps() -> list[Files]:
    return [
        {"gaps.csv": b"gap\n1h\n# two\n3.5 h\n90s\n2d\n"},
        {"gaps.csv": b"1e3\r\n20 min\r\n5ms\r\n"},
    ]


def _goodput(folder: Path, _files: Files) -> object:
    from armillary.goodput import Job, goodput
    from armillary.goodput.words import gaps

    known = gaps(str(folder / "gaps.csv"))
    job = Job(nodes=64, mtbf_s=6.4e6, days=10, law="recorded", gaps=known, interval_s=600)
    return goodput(job, runs=10)


def _step_traces() -> list[Files]:
    made = run_path(str(ROOT / "tests/python/explain/step_traces.py"))
    rows = made["step"](2, 2, 2, lambda *_: 0.5)
    with TemporaryDirectory() as folder:
        return [{"t.parquet": made["write"](rows, Path(folder) / "t.parquet").read_bytes()}]


def _step_rows() -> list[Files]:
    made = run_path(str(ROOT / "tests/python/explain/step_traces.py"))
    rows = made["step"](2, 2, 2, lambda *_: 0.5)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return [{"rows.json": json.dumps(columns, indent=1).encode()}]


def _rows(folder: Path, _files: Files) -> object:
    """Values that a column can hold, without Parquet around them."""
    from armillary import documents
    from armillary.errors import InputError
    from armillary.explain.step_trace import of_columns
    from armillary.explain.stragglers import stragglers

    text = (folder / "rows.json").read_text("utf-8", "replace")
    columns = documents.parse_json(text, "rows.json", "columns")
    kinds = {"optype": str, "start_ts": float, "duration": float}
    names = ("dp_rank", "stage", "step", "seq_id", "mc", *kinds)
    known = isinstance(columns, dict) and all(
        isinstance(columns.get(name), list)
        and all(type(each) is kinds.get(name, int) for each in columns[name])
        for name in names
    )
    if not known or len({len(columns[name]) for name in names}) > 1:
        raise InputError([])
    return stragglers(of_columns(columns, "rows.json"))


def _stragglers(folder: Path, _files: Files) -> object:
    from armillary.explain.stragglers import stragglers

    return stragglers(folder / "t.parquet")


def _groups(folder: Path, _files: Files) -> object:
    from armillary.cli import import_

    return import_._groups(str(folder / "groups.json"))


def _frameworks() -> list[Files]:
    return [{"f.yml": path.read_bytes()} for path in sorted((ROOT / "frameworks").glob("*.yml"))]


def _framework(folder: Path, _files: Files) -> object:
    from armillary.workload.frameworks import load_framework

    load_framework.cache_clear()  # It knows files by their paths.
    return load_framework(folder / "f.yml")


OLD_FILES = (
    b"topology: Ring(4)\nlinks: [{bandwidth: 100 GB/s, latency: 1 us}]  # fast\n"
    b"npu: {peak: 100 TFLOPS, compute: {model: roofline, scale: 0.5, 'beside': 0.75}}\n",
    b"workload:\n  model: llama-3-8b\n  options: {tp: 4, kernels: eager}\n"
    b"platform: {file: dgx-h100, npus: 4, settings: {npu.compute.scale: 0.5}}\nparameters:\n"
    b"  workload.merged: [true, false]\n  platform.npu.compute.beside: [0.5, 0.75]\n"
    b"  overlap: {set: workload.overlap_tp, values: [true, false]}\n",
    b"npus: 8\nnpu: {compute: {model: roofline, scale: 0.5, beside: 0.75}}\n"
    b"workloads:\n- {model: gpt3-175b, tp: 8, overlap_tp: true}\n",
)


def _old_files() -> list[Files]:
    return [{"f.yml": each} for each in OLD_FILES]


def _migrate(folder: Path, _files: Files) -> object:
    from armillary.migrate import migrate

    found = migrate(folder / "f.yml")
    return found.diff, found.as_dict()


def _snapshots() -> list[Files]:
    """Snapshots of memory by a small allocator: a pickle and JSON."""
    import random

    import memory_snapshots as made

    devices = [made.drawn(random.Random(seed), seed, 30) for seed in range(2)]
    value = made.snapshot(devices, [len(one.events) for one in devices])
    return [{"s.pickle": made.pickled(value)}, {"s.json": json.dumps(value).encode()}]


def _flexflow_tables() -> list[Files]:
    folder = ROOT / "tests/python/data/flexflow"
    measured = (folder / "flexnet_measures_dlrmsmall.json.gz").read_bytes()
    strategy = (folder / "flexflow_dlrm_strategy_8embs_8gpus.pb").read_bytes()
    return [{"s.pb": strategy}, {"m.json": gzip.decompress(measured)}]


def _inspector_dumps() -> list[Files]:
    """Dumps of two ranks in both forms."""
    import made_inspector as made

    ranks = [
        [made.call("0x1", rank, 2, "AllReduce", at, 4096, 10**15) for at in range(3 + rank)]
        for rank in range(2)
    ]
    forms = (ranks, [list(made.newest(each)) for each in ranks])
    return [
        {
            f"rank{rank}.log": "".join(json.dumps(each) + "\n" for each in records).encode()
            for rank, records in enumerate(form)
        }
        for form in forms
    ]


def _dumps(folder: Path, _files: Files) -> object:
    from armillary import InputError
    from armillary.explain import contents

    found = contents(folder)
    if found is None:
        raise InputError([])
    return found.to_json(), str(found)


def _contents(folder: Path, files: Files) -> object:
    from armillary import InputError
    from armillary.explain import contents

    found = contents(folder / next(iter(files)))
    if found is None:
        raise InputError([])
    return found.to_json(), str(found)


MEASURED = {
    "training": [
        {
            "id": "a",
            "group": "g",
            "model": {"layers": 4, "hidden": 64},
            "hardware": {"gpu": "H100", "gpus": 8, "nodes": 1},
            "parallel": {"tp": 2},
            "batch": {"global": 8},
            "metric": {"step_time_s": 1.5},
            "source": "x",
        }
    ],
    "compute": [{"kind": "gemm", "m": 128, "n": 256, "k": 512, "us": 18.5}],
}


def _measured(folder: Path, _files: Files) -> object:
    from armillary_lab.measured.published import file

    return file.read(str(folder / "measured.json"))


LAYOUTS = b"""id,group,model,seq_len,gpus,activation_checkpointing,kernel,micro_batch,tp,pp,\
sequence_parallel,status,step_time_s
a,g,llama-13b,2048,64,disabled,flash_attention2 + RMS kernel,1,2,2,False,ok,20.5
b,g,llama-65b,8192,64,every_layer,fused,4,2,1,True,oom,
"""


def _layouts(folder: Path, _files: Files) -> object:
    from armillary_lab.measured import layouts

    return layouts.read(folder / "layouts.csv")


KERNELS = b"""system,backend,ver,bytes,latency_us
h100,trtllm,1.0,1000,2.5
a100,vllm,0.1,100000,12.25
"""

EXCHANGES = b"""op_name,node_num,hidden_size,num_token,num_topk,num_experts,dispatch_sms,\
dispatch_transmit_us,dispatch_notify_us,combine_sms,combine_transmit_us,combine_notify_us,system,ver
normal,1,7168,128,8,256,24,45.5,0,24,80.25,0,h100,0.5.12
normal,8,7168,128,8,256,20,260,75.5,20,210,190,gb200,0.5.6.post2
"""


def _kernels(folder: Path, files: Files) -> object:
    from armillary.kernels import Stream
    from armillary.kernels.tables import TABLES, Table, count, read

    of = Table("x", ("bytes",), lambda row: Stream(bytes=count(row, "bytes")))
    return list(read(folder / next(iter(files)), (*TABLES, of)))


def _measured_kernels() -> list[Files]:
    from armillary.kernels import Gemm, Stream
    from armillary.kernels.measured_file import as_json, made

    rows = [(Gemm(m=m, n=64, k=64), 2.5 + m / 64) for m in (1, 64, 64, 4096)]
    text = as_json(made("H100", "x.csv", [*rows, (Stream(bytes=1000), 3.0)]))
    return [{"h.kernels.json": text.encode()}]


def _measured_kernel(folder: Path, _files: Files) -> object:
    from armillary.kernels import Gemm, one
    from armillary.platform import Platform

    path = str(folder / "h.kernels.json")
    target = Platform.load("dgx-h100", {"npu.kernels.measured": path})
    return [one(Gemm(m=m, n=64, k=64), target).basis.said for m in (64, 100, 10**6)]


PUBLISHED = (
    b"nodes,gpus,dp,tp,pp,micro_batch,accumulation,global_batch,hidden,heads,layers,seq_len,vocab,"
    b"gpu,oneflow_seq_s,oneflow_ms,oneflow_mem_MiB,megatron_seq_s\n"
    b"1,8,8,1,1,2,1,16,1536,16,16,2048,51200,V100,38.28,417.95,12404,33.27\n",
    b"id,model,layers,hidden,heads,seq_len,nodes,dp,tp,pp,micro_batch,global_batch,"
    b"activation_checkpointing,freq_GHz,mem_MiB,status,sec_per_iter,tflops_per_node,notes\n"
    b"f,1.3B,2,2048,32,1024,4,1,4,1,1,8,no,2.0,18870.0,ok,2533.0,0.86,x\n",
    b"hardware,n,framework,model,in_out_len,batch,parallelism,latency_s,throughput_tok_s\n"
    b"MI250,1,llama.cpp,Qwen/Qwen2-7B,1024,16,default (tensor),39.2,\n",
)


def _tables(folder: Path, _files: Files) -> object:
    from armillary_lab.measured import layouts
    from armillary_lab.measured.published import tables, tried
    from armillary_lab.score.plans import read

    path = str(folder / "table.csv")
    if tables.holds(path, tables.LAYOUTS):
        return tried.read(path), read(path)
    return layouts.holds(path), tables.holds(path, tables.SERVING), tables.read(path)


_TIMED = {"us": 2.5, "spread": 0.1, "how": "graph", "calls": 9, "sets": 3}
_STATE = {"clock_mhz": 1980, "memory_clock_mhz": 3201, "power_w": 650.5, "temperature_c": 60}
_STEP = {"step_us": [5.0, 6.0], "state": _STATE | {"readings": 4}}
_PROFILE = {"count": 1, "us": 3.5, "longest": [{"name": "mm", "count": 1, "us": 3.5}]}
GPU = {
    "schema": "armillary.gpu/1",
    "date": "2026-11-29",
    "small": True,
    "complete": False,
    "budget_s": 440.0,
    "spent_s": 3.5,
    "machine": {
        "device": "NVIDIA H100 80GB HBM3",
        "torch": "2.14",
        "python": "3.12",
        "cores": 16,
        "multiprocessors": 132,
        "l2_bytes": 50_000_000,
        "memory_bytes": 80_000_000_000,
    },
    "parts": [
        {
            "name": "products",
            "measured": 1,
            "no_time": 2,
            "failed": [{"case": "m=1", "reason": "no memory"}],
            "seconds": 1.5,
        }
    ],
    "kernels": [
        {"kind": "stream", "op": "copy", "bytes": 4096, **_TIMED},
        {"kind": "launch", "mode": "graph", **_TIMED},
        {"kind": "copy", "way": "to_host", "pinned": True, "bytes": 64, **_TIMED},
        {"kind": "gemm", "m": 8, "n": 16, "k": 32, "format": "fp8", "converted": True}
        | {"cache": "cold", **_TIMED},
        {"kind": "hot", "m": 8, "n": 8, "k": 8, "format": "bf16", "at_s": 0.5, "us": 3.0},
    ],
    "steps": [
        {"kind": "transformer", "name": "llama", "layers": 1, "hidden": 32, "heads": 4}
        | {"kv_heads": 2, "ffn": 64, "vocabulary": 128, "sequence": 32, "micro_batch": 2}
        | {"kernels": _PROFILE, **_STEP},
        {"kind": "dlrm", "name": "dlrm", "dense_features": 13, "bottom": [8], "top": [8, 1]}
        | {"tables": [{"rows": 10, "dim": 8, "pooling": 2}], "local_batch": 16}
        | {"kernels": _PROFILE, **_STEP},
    ],
}


def _gpu(folder: Path, _files: Files) -> object:
    from armillary_lab.measured import gpu

    return gpu.read(folder / "gpu.json")


LIBRA = b"""layer1 -1 1000 ALLREDUCE 4096 1000 NONE 0 1000 ALLREDUCE 8192 10
layer2 -1 1000 NONE 0 1000 ALLTOALL 4096 1000 ALLREDUCE 8192 10
"""


def _libra(folder: Path, _files: Files) -> object:
    from armillary.design import libra

    path = folder / "w.txt"
    return libra.is_workload(path), libra._layers(str(path))


def _sources() -> list[Files]:
    config = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).encode()
    return [{"m.json": config}, {"m.yml": (ROOT / "models/resnet-50.yml").read_bytes()}]


def _source(folder: Path, files: Files) -> object:
    from armillary.workload import source

    return source._holds_model(folder / next(iter(files)))


def _records() -> list[Files]:
    never, start = 2**64 - 1, (1, 1, 0, 0, 0, 0, 0)
    sent = [(32, 0, 1, 0, 10_000, 7, 1), (33, 0, 1, 0, 10_000, 7, 2), (34, 0, 0, 0, 2_000, 0, 3)]
    loaded = [(35, 2, 0, 0, 4096, 0, 4), (6, 0, 0, 0, 1_000, 0, 0), (6, 0, 0, 0, never, 0, 0)]
    packed = [struct.pack("<4I3Q", *record) for record in (start, *sent, *loaded)]
    return [{"records": b"".join(packed)}]


def _front_end(_folder: Path, files: Files) -> None:
    import armillary as arm
    from armillary.network import serve

    platform = arm.Platform.parse(
        "topology: Switch(6)\nlinks: {bandwidth: 10 GB/s, latency: 500 ns}\n"
        "npu: {peak: 1 TFLOPS, memory: {bandwidth: 1 TB/s}}\n"
    )
    serve(platform, "analytical", io.BytesIO(files["records"]), io.BytesIO())


TARGETS = (
    Target("memory_snapshot", _snapshots, _contents),
    Target("flexflow_tables", _flexflow_tables, _contents),
    Target("inspector_dumps", _inspector_dumps, _dumps),
    Target("plan", _plans, _plan),
    Target("bench", lambda: [{"bench.json": json.dumps(BENCH).encode()}], _bench),
    Target("pattern", _patterns, _pattern),
    Target("flow_sizes", _sizes, _size),
    Target("step_trace", _step_traces, _stragglers),
    Target("step_rows", _step_rows, _rows),
    Target("gaps", _gaps, _goodput),
    Target("groups", lambda: [{"groups.json": b'{"a": [0, 1], "b": [2, 3]}'}], _groups),
    Target("framework", _frameworks, _framework),
    Target("migrate", _old_files, _migrate),
    Target("layouts", lambda: [{"layouts.csv": LAYOUTS}], _layouts),
    Target(
        "kernels",
        lambda: [
            {"k.csv": KERNELS},
            {"k.csv": EXCHANGES},
            {"k.csv.gz": gzip.compress(KERNELS, mtime=0)},
        ],
        _kernels,
    ),
    Target("measured_kernels", _measured_kernels, _measured_kernel),
    Target("tables", lambda: [{"table.csv": each} for each in PUBLISHED], _tables),
    Target("gpu", lambda: [{"gpu.json": json.dumps(GPU).encode()}], _gpu),
    Target("measured", lambda: [{"measured.json": json.dumps(MEASURED).encode()}], _measured),
    Target("libra", lambda: [{"w.txt": LIBRA}], _libra),
    Target("model_or_not", _sources, _source),
    Target("front_end", _records, _front_end),
)
