"""Every row of "What you have, what to do": its command is run on a file of that kind."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import made_mllog
import pytest
import serve_targets
import smaller_targets
import targets
from conftest import ROOT, Armillary

import armillary as arm

PAGE = ROOT / "docs/guides/your-files.md"
ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| (?:[^|]+ \| )?`(?P<command>armillary [^`]+)` \| (?P<end>.+) \|$"
)
ROWS = [
    found for line in PAGE.read_text(encoding="utf-8").splitlines() if (found := ROW.match(line))
]

TRAIN = """\
torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 \\
    --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --vocab-size 51200 \\
    --micro-batch-size 1 --global-batch-size 16 --tensor-model-parallel-size 2 --bf16
"""
STEPS = "steps: [{layout: {tp: 2, pp: 1, dp: 4, zero: 1}, step: 5.1 s}]"
LOG = """\
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid 71 on node0 device  0
#  Rank  1 Group  0 Pid 72 on node0 device  1
        1024           256   float     sum      -1    21.50    0.05    0.05       0
  1073741824     268435456   float     sum      -1  5460.00  196.66  196.66       0
"""
GEMMS = "m,n,k,dtype,tflops\n1024,1024,1024,fp16,119.4\n8192,8192,8192,fp16,253.7\n"
TEXT = "DATA\n1\nlayer -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 1048576 10\n"
SMALL = "tests/python/data/flexflow/flexnet_taskgraph_small.fbuf.gz"
PROFILE = "tests/python/data/xplane/cpu_8"
XLA = "tests/python/data/xla/tensor_4"
MADE: dict[str, Callable[[], bytes]] = {
    "trace.json": lambda: targets._kineto()[0]["kineto.json"],
    "et.json": lambda: targets._host()[0]["host.json"],
    "taskgraph.fbuf": lambda: gzip.decompress((ROOT / SMALL).read_bytes()),
    "module.txt": lambda: gzip.decompress((ROOT / f"{XLA}.txt.gz").read_bytes()),
    "module.hlo.pb": lambda: gzip.decompress((ROOT / f"{XLA}.hlo.pb.gz").read_bytes()),
    "model.txt": TEXT.encode,
    "simai.txt": (ROOT / "tests/python/data/simai/simai_micro_all_reduce.txt").read_bytes,
    "config.json": (ROOT / "examples/qwen3-8b/config.json").read_bytes,
    "train.sh": TRAIN.encode,
    "steps.yml": STEPS.encode,
    "predicted.json": lambda: (
        arm.simulate("llama-3-8b", "dgx-h100", tp=8, global_batch=8).to_json().encode()
    ),
    "result_0.txt": lambda: made_mllog.blocks([9.0, 3.0, 3.1], 8).encode(),
    "train.log": lambda: targets._TRAINED,
    "fabric.txt": (ROOT / "tests/python/wiring/data/ibnetdiscover.txt").read_bytes,
    "links.txt": (ROOT / "tests/python/wiring/data/iblinkinfo.txt").read_bytes,
    "rocm.txt": lambda: (
        (ROOT / "tests/python/wiring/data/rocm.txt")
        .read_bytes()
        .replace(b"PCIE", b"XGMI")
        .replace(b" 3 ", b" 1 ")
    ),
    "blocks.conf": (ROOT / "tests/python/wiring/data/blocks.conf").read_bytes,
    "topology.conf": (ROOT / "tests/python/wiring/data/topology.conf").read_bytes,
    "topo.txt": (ROOT / "tests/python/wiring/data/hgx-h100.txt").read_bytes,
    "nccl.log": LOG.encode,
    "osu.log": lambda: targets._OSU,
    "ucc.log": lambda: targets._UCC,
    "param.log": lambda: targets._PARAM,
    "inspector.json": lambda: targets._INSPECTOR,
    "gemms.csv": GEMMS.encode,
    "clicks.txt.gz": (ROOT / "examples/clicks/train.txt.gz").read_bytes,
    "dlrm.pt": (ROOT / "examples/checkpoints/dlrm.pt").read_bytes,
    "dlrm.yml": (ROOT / "examples/checkpoints/dlrm.yml").read_bytes,
    "run.nsys-rep": lambda: b"\x51\x00\x01",
    "run.sqlite": lambda: targets._exports()[0]["run.sqlite"],
    "host.xplane.pb": lambda: gzip.decompress((ROOT / f"{PROFILE}.xplane.pb.gz").read_bytes()),
    "host.trace.json.gz": (ROOT / f"{PROFILE}.trace.json.gz").read_bytes,
    "strategy.pb": lambda: smaller_targets._flexflow_tables()[0]["s.pb"],
    "measures.json": lambda: smaller_targets._flexflow_tables()[1]["m.json"],
    "serve.sh": lambda: serve_targets.SCRIPT,
    "points.csv": lambda: serve_targets.POINTS[0],
    "azure.csv": lambda: serve_targets.SAMPLES["azure"],
    "burstgpt.csv": lambda: serve_targets.SAMPLES["burstgpt"],
    "mooncake.jsonl": lambda: serve_targets.SAMPLES["mooncake"],
    "sharegpt.jsonl": lambda: serve_targets.SAMPLES["llmservingsim"],
    "vllm.json": lambda: serve_targets.SAMPLES["vllm"],
    "profile_export.jsonl": lambda: serve_targets.SAMPLES["aiperf"],
    "requests.csv": lambda: serve_targets.SAMPLES["plain"],
    "texts.json": lambda: json.dumps([{"conversations": []}]).encode(),
    "snapshot.pickle": lambda: smaller_targets._snapshots()[0]["s.pickle"],
}
"""Files by the names that the page gives them."""


def made(name: str, folder: Path) -> list[str]:
    """Writes the file of a word of the command; the words that a shell would make of it."""
    if name == "nccl_trace_rank_*":
        files = [f"nccl_trace_rank_{rank}" for rank in range(4)]
        for rank, file in enumerate(files):
            data = ROOT / f"tests/python/data/flight_recorder/hang_rank_{rank}"
            shutil.copy(data, folder / file)
        return files
    if name == "trace":
        workload = arm.workload.build("resnet-50", dp=8)
        workload.write(folder / "trace", format="chakra")
    if name in MADE:
        (folder / name).write_bytes(MADE[name]())
    return [name]


def test_the_page_has_rows() -> None:
    assert len(ROWS) == 47
    assert {*MADE} <= {word for row in ROWS for word in row["command"].split()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_every_row_does_what_it_says(
    row: re.Match[str], armillary: Armillary, tmp_path: Path
) -> None:
    words = [word for name in row["command"].split()[1:] for word in made(name, tmp_path)]
    ran = armillary(*words)
    refused = row["end"].strip("`") if row["end"].startswith("`") else None
    if refused is None:
        assert ran.returncode == 0, ran.stderr
    else:
        assert ran.returncode == 2
        assert refused in ran.stderr
        assert "allowed:" in ran.stderr
