"""Texts of other programs that are not workloads: `import` and `check` name them, and the command
that takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT, Armillary

from armillary import first_bytes

WIRING = ROOT / "tests/python/wiring/data"
TEXTS = {
    "nccl-tests": "# nThread 1 nGpus 1 minBytes 8 maxBytes 64\n#\n8 2 float sum -1 1 1 1 0\n",
    "OSU Micro-Benchmarks": "mpirun -np 2 osu_allreduce\n# OSU MPI Allreduce Latency Test v7.5\n",
    "Intel MPI Benchmarks": "# Benchmarking Allreduce\n# #processes = 2\n",
    "ucc_perftest": "Collective:             Allreduce\nMemory type:            host\n",
    "PARAM's comms.py": "[Rank   0] host a\n\n\tCOMMS-RES   size (B)\n",
    "Megatron-LM": " iteration 1/ 9 | elapsed time per iteration (ms): 9147.6 |\n",
    "NeMo": "Epoch 0: train_step_timing in s: 8.9\n",
    "torchtitan": "[rank0]: step: 10  loss: 11.2  memory: 10.0GiB(20.00%)  tps: 7,000  mfu: 3%\n",
    "MLPerf Training": ':::MLLOG {"namespace": "", "key": "samples_per_second"}\n',
}
NETWORKS = {
    "hgx-h100.txt": "nvidia-smi topo -m",
    "dgx1-v100.txt": "nvidia-smi topo -m",
    "rocm.txt": "rocm-smi --showtopo",
    "topology.conf": "a topology.conf of Slurm",
    "blocks.conf": "a topology.conf of Slurm",
    "ibnetdiscover.txt": "ibnetdiscover",
    "iblinkinfo.txt": "iblinkinfo",
    "dgx-a100.xml": "NCCL's topology",
}


@pytest.mark.parametrize("writer", [*TEXTS, *NETWORKS])
@pytest.mark.parametrize("verb", [("import", "-o", "job"), ("check",)])
def test_the_command_is_named(
    writer: str, verb: tuple[str, ...], armillary: Armillary, tmp_path: Path
) -> None:
    path = WIRING / writer
    if writer in TEXTS:
        path = tmp_path / "it.txt"
        path.write_text(TEXTS[writer], encoding="utf-8")
    run = armillary(verb[0], str(path), *verb[1:])
    assert run.returncode == 2
    assert NETWORKS.get(writer, writer) in run.stderr.splitlines()[0]
    steps = ("Megatron-LM", "NeMo", "torchtitan", "MLPerf Training")
    way = "compare" if writer in steps else "calibrate"
    assert f"armillary {'platform import' if writer in NETWORKS else way}" in run.stderr


def test_workloads_are_not_taken_for_others() -> None:
    """All data of tests that `import` reads, and documents."""
    data = ROOT / "tests/python/data"
    paths = [path for path in data.rglob("*") if path.is_file()]
    paths += [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    assert len(paths) > 100
    taken = {path.name for path in paths if first_bytes.known_text(first_bytes.of(path))}
    assert not taken
