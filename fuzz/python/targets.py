"""Targets of the fuzzer: for each reader of Python its files, as we or others write them, and the
function that reads them. `smaller_targets.py` and `trainer_targets.py` have more of them."""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from runpy import run_path

import launch_targets
import serve_targets
import smaller_targets
import trainer_targets
from target import ROOT, Files, Target

sys.path.insert(0, str(ROOT / "tests/python"))

import armillary as arm


def _kineto() -> list[Files]:
    from recorded import Recording, nccl

    found: list[Files] = []
    for world in (1, 2):
        trace = Recording(0, world)
        for number, start in ((1, 0.0), (2, 200.0)):
            trace.step(number, start, start + 180)
            trace.op("aten::mm", start + 5, start + 40, **{"External id": number})
            trace.annotation("forward", start + 4, start + 60)
            trace.kernel("ampere_sgemm_128x64_nn", start + 10, start + 30, start + 80)
            trace.kernel("Memcpy HtoD", start + 20, start + 90, start + 95)
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            trace.kernel(
                name,
                start + 30,
                start + 100,
                start + 140,
                20,
                **nccl("allreduce", 1000, list(range(world))),
            )
            trace.sync_record(
                "Stream Synchronize", trace.call("cudaStreamSynchronize", start + 50, start + 150)
            )
        document = {
            "schemaVersion": 1,
            "distributedInfo": trace.distributed,
            "traceEvents": trace.events,
        }
        found.append({"kineto.json": json.dumps(document).encode()})
    found.append({"kineto.json.gz": gzip.compress(found[0]["kineto.json"])})
    return found


def _host() -> list[Files]:
    tensor = [3, 4, 0, 1000, 4, "cuda:0"]
    nodes: list[dict[str, object]] = [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1},
        {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1},
    ]
    groups = json.dumps([{"pg_name": "0", "ranks": [0, 1], "group_size": 2}])
    for at, (name, values, types) in enumerate(
        [
            ("## process_group:init ##", [groups], ["String"]),
            ("aten::mm", [tensor, tensor], ["Tensor(float)", "Tensor(float)"]),
            (
                "record_param_comms",
                [[tensor], 1, ["0", "default"], 0, "allreduce", [], [], 0, 1, 2],
                ["GenericList"],
            ),
        ],
        3,
    ):
        inputs = {"values": values, "types": types, "shapes": [[10, 100], [100, 10]]}
        outputs = {"values": [tensor], "types": ["Tensor(float)"], "shapes": [[10, 10]]}
        attributes = [
            {"name": "rf_id", "type": "uint64", "value": at},
            {"name": "tid", "type": "uint64", "value": 1},
        ]
        nodes.append(
            {
                "id": at,
                "name": name,
                "ctrl_deps": 2,
                "inputs": inputs,
                "outputs": outputs,
                "attrs": attributes,
            }
        )
    document = {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 100,
        "time": "x",
        "start_ts": 1,
        "nodes": nodes,
    }
    return [{"host.json": json.dumps(document).encode(), **kineto} for kineto in ({}, _kineto()[0])]


def _flight_recorders() -> list[Files]:
    """Dumps of two ranks: pickles, and a pickle next to JSON."""
    folder = ROOT / "tests/python/data/flight_recorder"
    ranks = {f"rank_{rank}": (folder / f"groups_rank_{rank}").read_bytes() for rank in range(2)}
    text = (folder / "groups_rank_0.json").read_bytes()
    return [ranks, {"rank_0": text, "rank_1": ranks["rank_1"]}]


def _import_dumps(folder: Path, files: Files) -> object:
    from armillary.workload.importer import import_traces

    groups = {"1": (0, 1)}
    imported = import_traces([folder / name for name in files], groups=groups)
    return imported.as_dict(), imported.workload.summary


def _task_graphs() -> list[Files]:
    path = ROOT / "tests/python/data/flexflow/flexnet_taskgraph_small.fbuf.gz"
    return [{"graph.fbuf": gzip.decompress(path.read_bytes())}]


def _exports() -> list[Files]:
    """Exports of Nsight Systems: two ranks with a collective, and one packed."""
    import tempfile

    from nsys_export import small, thread_of

    export = small()
    export.range("forward", thread_of(1), 1001, 9000)
    export.wait(thread_of(1), 5000, 7, 20)
    with tempfile.TemporaryDirectory() as folder:
        data = export.write(Path(folder) / "run.sqlite").read_bytes()
    return [{"run.sqlite": data}, {"run.sqlite.gz": gzip.compress(data)}]


def _profiles() -> list[Files]:
    """Profiles of XLA: of GPUs and CPUs as they were written, of a TPU, and of a CPU as JSON."""
    from profiled_tpu import small

    folder = ROOT / "tests/python/data/xplane"

    def unpacked(name: str) -> bytes:
        return gzip.decompress((folder / f"{name}.gz").read_bytes())

    document = json.loads(unpacked("cpu_8.trace.json"))
    named = [each for each in document["traceEvents"] if each.get("ph") == "M"]
    events = [each for each in document["traceEvents"] if "args" in each and each not in named]
    document["traceEvents"] = [*named, *events[-200:]]
    return [
        {"tpu.xplane.pb": small()},
        {"cpu_8.trace.json": json.dumps(document).encode()},
        {"mi300_8.xplane.pb": unpacked("mi300_8.xplane.pb")},
        {"cpu_8.xplane.pb": unpacked("cpu_8.xplane.pb")},
    ]


def _xla_steps() -> list[Files]:
    """Modules that are not fused yet: texts after the SPMD partitioner."""
    folder = ROOT / "tests/python/data/xla"
    names = ("pipeline_4_flat.split", "strided_4_2.split", "tensor_4.split", "layers_5_loop")
    texts = [gzip.decompress((folder / f"{name}.txt.gz").read_bytes()) for name in names]
    return [{"module.txt": text} for text in texts]


def _fuse(folder: Path, files: Files) -> object:
    from armillary.workload.xla import Options, import_hlo

    [name] = files
    options = Options(fuse=True, combine_mb=1.0)
    found = import_hlo(name, (folder / name).read_bytes(), options)
    return arm.simulate(found.workload, _toy_platform(found.workload.ranks))


def _xla() -> list[Files]:
    folder = ROOT / "tests/python/data/xla"

    def unpacked(name: str) -> bytes:
        return gzip.decompress((folder / f"{name}.gz").read_bytes())

    found: list[Files] = []
    for name in ("pipeline_4_flat", "strided_4_2", "layers_5_loop", "numbers_1"):
        found.append({"module.txt": unpacked(f"{name}.txt")})
    for name in ("strided_4_2", "tensor_4"):
        found.append({"module.hlo.pb": unpacked(f"{name}.hlo.pb")})
    text, buffers = unpacked("tensor_4.txt"), unpacked("tensor_4.buffers.txt")
    found.append({"module.txt": text, "buffers.txt": buffers})
    return found


def _import(folder: Path, files: Files) -> object:
    from armillary.workload.importer import import_traces

    imported = import_traces([folder / name for name in files])
    return imported.as_dict(), imported.workload.summary


@cache
def _written() -> Files:
    """A small workload as it is written."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        arm.workload.build("resnet-50", dp=2).write(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _toy_platform(npus: int) -> arm.Platform:
    return arm.Platform(f"Ring({npus})", bandwidth="100 GB/s", latency="1 us")


def _workload(folder: Path, _files: Files) -> object:
    from armillary.report import run_page

    workload = arm.workload.load(folder)
    if not 2 <= workload.ranks <= 64:
        return workload.summary
    return run_page.page(arm.simulate(workload, _toy_platform(workload.ranks), detail=True).report)


def _models() -> list[Files]:
    return [{"model.yml": path.read_bytes()} for path in sorted((ROOT / "models").glob("*.yml"))]


def _build(folder: Path, files: Files) -> object:
    model = arm.workload.load_model(folder / next(iter(files)))
    if model.family in ("transformer", "moe"):
        from armillary.model.decoder_reader import decoder
        from armillary.model.weights import parameters

        return parameters(decoder(model))
    return arm.workload.build(model, dp=2)


def _huggingface() -> list[Files]:
    tested = run_path(str(ROOT / "tests/python/model/test_huggingface.py"))
    values = [
        value
        for name, value in sorted(tested.items())
        if name.isupper() and isinstance(value, dict)
    ]
    configs = [value for value in values if "model_type" in value or "architectures" in value]
    return [{"config.json": json.dumps(config, indent=1).encode()} for config in configs]


def _captured(folder: Path, files: Files) -> object:
    from armillary.capture import parameters

    return parameters(folder / next(iter(files)))


def _small_huggingface() -> list[Files]:
    """Small models, which are built in a moment."""
    small = run_path(str(ROOT / "tests/python/capture/small_models.py"))
    kinds = ("llama", "gemma3_text", "deepseek_v3", "t5")
    configs = [{"model_type": kind, **small["SMALL"][kind]} for kind in kinds]
    return [{"config.json": json.dumps(config, indent=1).encode()} for config in configs]


@cache
def _report() -> bytes:
    workload = arm.workload.build("resnet-50", dp=2)
    return arm.simulate(workload, _toy_platform(2), detail=True).to_json().encode()


def _read_report(folder: Path, _files: Files) -> object:
    from armillary.report import reading, run_page

    report = reading.read(folder / "report.json")
    run_page.page(report)
    if report["detail"] is not None:
        from armillary import explain

        explain.compare([report, reading.parse(_report())], ["a", "b"])
    return None


STUDY = {
    "workload": {"model": "resnet-50", "options": {"dp": 8}},
    "platform": "dgx-h100",
    "parameters": {"platform.scheduler.chunks": [1, 2]},
}


def _studies() -> list[Files]:
    given = (ROOT / "examples/sweep.yml").read_bytes()
    return [{"study.yml": json.dumps(STUDY, indent=1).encode()}, {"study.yml": given}]


def _study(folder: Path, _files: Files) -> object:
    from armillary.sweep import reader, source

    return reader.study(source.read(folder / "study.yml"))


@cache
def _journal() -> Files:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder, "study.yml")
        study.write_text(json.dumps(STUDY))
        arm.sweep(study, Path(folder, "out"), workers=1)
        return {
            "study.yml": study.read_bytes(),
            "journal.jsonl": Path(folder, "out/journal.jsonl").read_bytes(),
        }


def _resume(folder: Path, _files: Files) -> object:
    return arm.sweep(folder / "study.yml", folder, workers=1, resume=True).table.height


@cache
def _table() -> Files:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        arm.sweep(STUDY, folder, workers=1)
        return {"table.parquet": Path(folder, "table.parquet").read_bytes()}


def _swept(folder: Path, _files: Files) -> object:
    from armillary.sweep import load

    return load(folder / "table.parquet").table.height


DESIGN = b"""name: small
npus: 64
npu: {peak: 234 TFLOPS}
workloads:
  - {model: megatron-1.7b, tp: 8, micro_batch: 1}
topologies: [R(8)_SW(8), FC(8)_R(8)]
bandwidth: 300 GB/s
latency: [500 ns, 1 us]
cost: multidim
constraints:
  - bw[0] >= bw[-1]
  - cost <= 15 M$
objective: step_time
"""


def _designs() -> list[Files]:
    return [{"design.yml": DESIGN}]


def _design(folder: Path, _files: Files) -> object:
    from armillary.design import reader
    from armillary.sweep import source

    found = source.read(folder / "design.yml")
    if isinstance(found.values.get("npus"), int) and found.values["npus"] > 4096:
        return None  # an honest large search
    return reader.task(folder / "design.yml")


def _costs() -> list[Files]:
    libra = b"InterPod: {Link: 7.8, Switch: 18, Nic: 31.6}\nIntraPod: {Link: 2}\n"
    ours = [path.read_bytes() for path in sorted((ROOT / "costs").glob("*.yml"))]
    return [{"costs.yml": text} for text in (*ours, libra)]


def _cost(folder: Path, _files: Files) -> object:
    from armillary.design import cost_file

    return cost_file.load(folder / "costs.yml")


_LOG = b"""# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid   1 on   a device  0 [0x07] NVIDIA H100
#  Rank  1 Group  0 Pid   1 on   a device  1 [0x0a] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    50.00   20.97   20.97      0
     2097152        524288     float     sum      -1    80.00   26.21   26.21      0    80.00   26.21   26.21      0
# Avg bus bandwidth    : 23.59
"""  # noqa: E501
_RCCL = b"""[{"name": "AllReduce", "ranks": 8, "gpusPerRank": 1, "size": 1048576, "inPlace": 1, "time": 50.0,
"algBw": 20.97, "busBw": 36.7, "type": "float", "redop": "sum"}]"""  # noqa: E501
_OSU = b"""mpirun -np 16 osu_allreduce
# OSU MPI Allreduce Latency Test v7.5
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1024                   10.05              9.00             11.00        1000
1048576              1064.92           1000.00           1100.00        1000
"""
_INTEL = b"""# Benchmarking Alltoall
# #processes = 16
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1024         1000         9.00        11.00        10.05
"""
_UCC = b"""mpirun -np 16 ucc_perftest -c alltoall -F
Collective:             Alltoall
Memory type:            cuda

       Count        Size                Time, us                           Bandwidth, GB/s
                                 avg         min         max         avg         max         min
       65536      262144       76.46       72.62       82.30       51.43       54.15       47.78
      131072      524288      121.82      118.44      125.04       64.56       66.40       62.89
Total time: 0.21 ms
"""
_PARAM = b"""[Rank   0] host a, device: cuda:0, local_rank: 0 world_size: 8, master_ip: 127.0.0.1
\tCOMMS-RES       size (B)  nElementsPerRank   Latency(us):p50         p75         p95         Min         Max    AlgBW(GB/s) BusBW(GB/s)
\tCOMMS-RES-all_reduce        1048576            262144              50.0        51.0        52.0        49.0        53.0         20.972      36.700
"""  # noqa: E501
_INSPECTOR = b"""{"header": {"id": "0x7f", "rank": 2, "n_ranks": 8, "nnodes": 1},
"coll_perf": {"coll": "AllReduce", "coll_sn": 7, "coll_msg_size_bytes": 17179869184,
"coll_exec_time_us": 61974, "coll_algobw_gbs": 277.210914, "coll_busbw_gbs": 485.119099}}
{"header": {"id": "0xe6", "rank": 4, "n_ranks": 8, "nnodes": 1},
"coll_perf": {"coll": "ReduceScatter", "coll_sn": 1, "coll_msg_size_bytes": 2147483648,
"coll_exec_time_us": 41057, "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 418.439467,
"coll_busbw_gbs": 366.134533}}
"""
_GEMM = b"m,n,k,dtype,us\n128,256,512,bf16,18.5\n4096,4096,4096,bf16,300\n128,256,512,bf16,19\n"
_STREAM = b"op,GBps,bytes\ncopy,2900,1073741824\ntriad,2950,1073741824\n"


def _measurements() -> list[Files]:
    table = json.dumps(
        {"rows": [{"m": 128, "n": 256, "k": 512, "width": 2, "time_us": 18}]}
    ).encode()
    nccl = json.dumps(
        {
            "args": ["all_reduce_perf"],
            "config": {"devices": [{"rank": 0, "hostname": "a"}], "nthreads": 1, "ngpus": 8},
            "results": [
                {"size": 1048576, "in_place": {"time": 50.0, "alg_bw": 20.97, "bus_bw": 36.7}}
            ],
        }
    ).encode()
    logs = (_LOG, _RCCL, _OSU, _INTEL, _UCC, _PARAM, _INSPECTOR, _GEMM, _STREAM, table, nccl)
    return [{"all_reduce.log": text} for text in logs]


_TRAINED = b"""\
 iteration  10/ 100 | elapsed time per iteration (ms): 9147.6 | global batch size:     8 |
 iteration  20/ 100 | elapsed time per iteration (ms): 2890.1 | global batch size:     8 |
 iteration  30/ 100 | elapsed time per iteration (ms): 2847.6 | global batch size:     8 |
"""
_TITAN = b"""\
\x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[34mtps: 2,000  \x1b[36mtflops: 40.00  mfu: 10.00%\x1b[0m
[rank0]: step: 10  loss: 11.2  memory: 10.0GiB(20.00%)  tps: 7,000  tflops: 340.00  mfu: 34.00%
"""


def _trained() -> list[Files]:
    nemo = b"train_step_timing in s: 8.9\ntrain_step_timing in s=8.8\n"
    from made_mllog import blocks, evaluations, timings

    results = (each([0.5, 0.4, 0.45], 8).encode() for each in (blocks, evaluations, timings))
    return [{"train.log": text} for text in (_TRAINED, _TITAN, nemo, *results)]


def _training_log(folder: Path, files: Files) -> object:
    from armillary import training_log

    path = folder / next(iter(files))
    training_log.is_log(path)
    return training_log.read(path, 1024.0).median_s()


def _measured(folder: Path, files: Files) -> object:
    from armillary import InputError
    from armillary.calibrate import read, read_kernels
    from armillary.platform import read_gemm_table

    path = str(folder / next(iter(files)))
    refused = 0
    for reader in (read, read_kernels, read_gemm_table):
        try:
            reader(path)
        except InputError:
            refused += 1
    if refused == 3:
        raise InputError([])
    return refused


def _networks() -> list[Files]:
    folder = ROOT / "tests/python/wiring/data"
    files = [path for path in sorted(folder.iterdir()) if path.suffix != ".md"]
    return [{path.name: path.read_bytes()} for path in files]


def _network(folder: Path, files: Files) -> object:
    from armillary import wiring

    named = {
        "closfabric.yaml": {"nvlink": "1 GB/s", "pcie": "1 GB/s"},
        "topology.conf": {"uplink": "1 GB/s"},
        "blocks.conf": {"uplink": "1 GB/s"},
        "rocm.txt": {"xgmi": "1 GB/s", "pcie": "1 GB/s", "cpu": "1 GB/s"},
        "iblinkinfo.txt": {"cable_latency": "1 us"},
        "ibnetdiscover.txt": {"cable_latency": "1 us"},
    }
    given = next((named[name] for name in files if name in named), {})
    nodes = 1 if given else 2
    found = wiring.import_file(
        folder / next(iter(files)), name="x", assumed=wiring.Assumed(given, "A100"), nodes=nodes
    )
    return arm.Platform.parse(found.text).picture()


TARGETS = (
    Target("kineto", _kineto, _import),
    Target("host_trace", _host, _import),
    Target("task_graph", _task_graphs, _import),
    Target("xla", _xla, _import),
    Target("xla_fused", _xla_steps, _fuse),
    Target("profile", _profiles, _import),
    Target("flight_recorder", _flight_recorders, _import_dumps),
    Target("nsys_export", _exports, _import),
    Target("workload_json", lambda: [_written()], _workload, ".et"),
    Target("model", _models, _build),
    Target("huggingface", _huggingface, _build),
    Target("capture", _small_huggingface, _captured),
    Target("training_log", _trained, _training_log),
    Target("report", lambda: [{"report.json": _report()}], _read_report),
    Target("study", _studies, _study),
    Target("journal", lambda: [_journal()], _resume, "study.yml"),
    Target("table", lambda: [_table()], _swept),
    Target("design", _designs, _design),
    Target("costs", _costs, _cost),
    Target("measurements", _measurements, _measured),
    Target("network", _networks, _network),
    *smaller_targets.TARGETS,
    *launch_targets.TARGETS,
    *serve_targets.TARGETS,
    *trainer_targets.TARGETS,
)
