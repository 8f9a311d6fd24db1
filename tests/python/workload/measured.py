"""Measured training steps on A100s beside simulated ones; as a script it prints every row.

Here: what was published, how its platform is described. Not here: the bounds (`test_measured.py`).
Efficiencies are not fitted: 70.5 % of peak for matrix multiplications on an A100 and 1,300 of its 1,555 GB/s are what
Mudigere et al. 2022 (arXiv:2104.05158, appendix B) measured for other models. Overheads that a simulation of kernels
does not know (launches, data loading, optimizer bookkeeping, stragglers) are missing, so simulated steps are expected
to be too fast. Sources: Narayanan et al. 2021 (arXiv:2104.04473, table 1; micro-batches and chunks from
examples/sc21/run_table_1.sh of NVIDIA/Megatron-LM@79a3bb6b); Korthikanti et al. 2022 (arXiv:2205.05198, tables 3 and
5).
"""

from __future__ import annotations

from dataclasses import dataclass

import armillary as arm
from armillary.workload import Model, Workload, transformer

PEAK, GEMM = 312, 0.705
MEMORY = 2000 * 1300 / 1555
"""GB/s of an 80 GB A100 at the share of its peak measured on a 40 GB one."""


@dataclass(frozen=True)
class Run:
    """A published run: model, GPUs, batch, micro-batch, chunks of a stage, and what was measured."""

    model: str
    tp: int
    pp: int
    gpus: int
    batch: int
    micro: int
    chunks: int
    measured: float


TABLE_1 = [
    # TFLOP/s per GPU, with full recomputation.
    Run("megatron-1.7b", 1, 1, 32, 512, 16, 1, 137),
    Run("megatron-3.6b", 2, 1, 64, 512, 16, 1, 138),
    Run("megatron-7.5b", 4, 1, 128, 512, 16, 1, 142),
    Run("megatron-18b", 8, 1, 256, 1024, 8, 1, 135),
    Run("megatron-39b", 8, 2, 512, 1536, 4, 1, 138),
    Run("megatron-76b", 8, 4, 1024, 1792, 2, 3, 140),
    Run("megatron-145b", 8, 8, 1536, 2304, 2, 2, 148),
    Run("megatron-310b", 8, 16, 1920, 2160, 1, 2, 155),
    Run("megatron-530b", 8, 35, 2520, 2520, 1, 3, 163),
    Run("megatron-1t", 8, 64, 3072, 3072, 1, 1, 163),
]

TABLE_5 = [
    # Seconds of a step with full recomputation, and with sequence parallelism and selective recomputation.
    (Run("22b 48 6144 64", 8, 1, 8, 4, 4, 1, 1.42), 1.10),
    (Run("175b 96 12288 96", 8, 8, 64, 64, 1, 3, 18.13), 13.75),
    (Run("530b 105 20480 128", 8, 35, 280, 280, 1, 3, 49.05), 37.83),
    (Run("1t 128 25600 160", 8, 64, 512, 512, 1, 1, 94.42), 71.49),
]
"""Models as name, layers, hidden width and heads."""

LLAMA = [(8192, 64, 430), (16384, 128, 400)]
"""Llama 3 405B, 16 M tokens a step: GPUs, replicas, TFLOP/s per GPU."""


def llama(gpus: int, replicas: int) -> float:
    """Simulated TFLOP/s per GPU; a layer a chunk, since the paper's first chunk is the embedding alone (section
    3.3.2)."""
    workload = transformer(
        "llama-3-405b",
        tp=8,
        pp=16,
        dp=replicas,
        sp=True,
        global_batch=2048,
        virtual_stages=8,
        zero=1,
        fp32_gradients=True,
    )
    assert workload.summary is not None
    settings = {
        "topology": f"Switch(8)_Switch({gpus // 8})",
        "npu.peak": f"{989 * GEMM:.2f} TFLOPS",
        "npu.memory.bandwidth": f"{3350 * 1300 / 1555:.1f} GB/s",
    }
    time = arm.simulate(workload, arm.Platform.load("dgx-h100-16n", settings)).step_time_ns
    return workload.summary.flops / gpus / time / 1e3


def seconds(run: Run, workload: Workload) -> float:
    """Simulated time of a step on DGX A100 nodes."""
    nodes = run.gpus // 8
    base = "dgx-a100-16n" if nodes > 1 else "dgx-a100-80gb"
    settings = {"npu.peak": f"{PEAK * GEMM:.2f} TFLOPS", "npu.memory.bandwidth": f"{MEMORY:.1f} GB/s"}
    if nodes > 1:
        settings["topology"] = f"Switch(8)_Switch({nodes})"
    return arm.simulate(workload, arm.Platform.load(base, settings)).step_time_ns / 1e9


def rate(run: Run) -> float:
    """Simulated TFLOP/s per GPU of a row of table 1."""
    workload = transformer(
        run.model,
        tp=run.tp,
        pp=run.pp,
        dp=run.gpus // run.tp // run.pp,
        micro_batch=run.micro,
        global_batch=run.batch,
        virtual_stages=run.chunks,
        recompute="full",
        attention="unfused",
        precision="fp16",
        overlap_grad_reduce=False,
        scatter_gather=True,
    )
    assert workload.summary is not None
    return workload.summary.hardware_flops / run.gpus / seconds(run, workload) / 1e12


def steps(run: Run) -> tuple[float, float]:
    """Simulated seconds of a row of table 5: full recomputation; sequence parallelism and selective recomputation."""
    name, layers, hidden, heads = run.model.split()
    sizes = {"layers": int(layers), "hidden": int(hidden), "heads": int(heads), "ffn": 4 * int(hidden)}
    model = Model(name, "transformer", {**sizes, "vocabulary": 51200, "positions": 2048, "sequence": 2048})
    return _step(run, model, selective=False), _step(run, model, selective=True)


def _step(run: Run, model: Model, *, selective: bool) -> float:
    workload = transformer(
        model,
        tp=run.tp,
        pp=run.pp,
        micro_batch=run.micro,
        global_batch=run.batch,
        virtual_stages=run.chunks,
        sp=selective,
        scatter_gather=not selective,
        recompute="selective" if selective else "full",
        attention="unfused",
        precision="fp16",
    )
    return seconds(run, workload)


def main() -> None:
    """Prints ours, theirs and the ratio."""
    for gpus, replicas, measured in LLAMA:
        ours = llama(gpus, replicas)
        print(f"llama-3-405b on {gpus:5} {ours:6.1f} TFLOP/s | {measured:6.1f} | {ours / measured:.3f}")
    for run in TABLE_1:
        ours = rate(run)
        print(f"{run.model:14} {ours:6.1f} TFLOP/s | {run.measured:6.1f} | {ours / run.measured:.3f}")
    for run, better in TABLE_5:
        full, selective = steps(run)
        gain, theirs = full / selective - 1, run.measured / better - 1
        print(f"{run.model.split()[0]:5} {full:6.2f} s | {run.measured:6.2f} | {full / run.measured:.3f}", end="   ")
        print(f"{selective:6.2f} s | {better:6.2f} | {selective / better:.3f}   gain {gain:.1%} | {theirs:.1%}")


if __name__ == "__main__":
    main()
