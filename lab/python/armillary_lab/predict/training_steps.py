"""Predicted times of measured training steps.

A GPU generation has one efficiency model (`systems/`), whoever measured. A source has the framework
it says it used (`frameworks/`), with other options only where it says so (`SAID`), and the machine
it says it used (`machine`). No run has settings of its own. What was fitted, and to which runs, is
in lab/accuracy/steps.md. Here: language models. Not here: DLRM and ResNet-50 (`vision.py`),
and how far off predictions are (`score`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from armillary.api import simulate
from armillary.errors import InputError
from armillary.platform import Platform
from armillary.units import NS_PER_S
from armillary.workload import Workload, build
from armillary.workload.framework_set import nested

from ..measured.published import machines
from ..measured.training import Training, trainings
from . import nanotron, peak_memory

NARROW_GRADIENTS: Mapping[str, object] = {"fp32_gradients": False}

SAID: Mapping[str, Mapping[str, object]] = {
    "megatron_seqsel_a100": {"overlap_grad_reduce": True},
    "simumax_b200": {
        "overlap_tp": False,
        "overlap_grad_reduce": False,
        "overlap_param_gather": False,
        "cp_comm_type": "a2a",
    },
    "nemo_megatron_bridge": NARROW_GRADIENTS,
}
"""Options of groups that are not their framework's usual ones. Korthikanti et al. overlap
gradients; SimuMax says that it overlaps nothing and exchanges heads
(docs/b200/b200_real_repro_guide.md). Megatron-Bridge's performance recipes reduce gradients in 16
bits (`grad_reduce_in_fp32 = False` in scripts/performance/configs)."""

NARROW_WITH_FP8 = ("dgxc_benchmarking", "nemo_h100_fp8", "mlperf")
"""Groups on NeMo, whose performance scripts reduce gradients in 16 bits where multiplications have
8 (`grad_reduce_in_fp32 = False` in scripts/performance/llm)."""

BOOSTED = ("dgxc_benchmarking", "nemo_h100_fp8", "nemo_megatron_bridge", "mlperf")
"""Groups of NVIDIA's own scripts, which shift power from memory to multiprocessors
(`enable_vboost=True`; `nvidia-smi boost-slider --vboost 1`)."""

BOOST: Mapping[str, object] = {
    "npu.compute.sustained": "0.723",
}
"""Rates that multiplications of an H100 then keep, 6 % more: fitted to dgxc-benchmarking's runs
with 16 bits, and to all of these groups' with 8."""

LARGE = ("megatron_sc21", "megatron_seqsel_a100")
"""Groups of single runs, large enough never to wait for launches."""

PRESETS = {
    "A100": ("dgx-a100-80gb", "dgx-a100-16n"),
    "A100-40GB": ("dgx-a100", "dgx-a100-16n"),
    "H100": ("dgx-h100", "dgx-h100-16n"),
    "H100-96GB": ("dgx-h100", "dgx-h100-16n"),
    "B200": ("dgx-b200", "dgx-b200-16n"),
}
"""GPU: one node, and several."""

NETWORKS = {"vtrain_multi": "12.5 GB/s", "internevo": "6.25 GB/s"}
"""Bandwidth of a GPU between nodes where a source says other than the preset: 800 and 400 Gb/s a
node."""

ROOM = 0.9
"""Part of a GPU's memory up to which allocators find blocks without asking the driver again."""

OFF = 2.0
"""Runs off by this factor: nanotron's hosts were in the other state than we say (`nanotron.py`)."""


def options(run: Training) -> dict[str, object]:
    """Options that make the run's workload."""
    if run.captured:
        return _captured(run)
    found = {**run.options, **SAID.get(run.group, {}), "framework": run.framework.name}
    if run.model.family == "transformer":
        found.pop("ep")
    if run.group in NARROW_WITH_FP8 and run.precision != "bf16":
        found |= NARROW_GRADIENTS
    if run.group == "torchtitan":
        found |= _torchtitan(run)
    elif "fp8" in run.extra:
        # NeMo's recipes gather parameters in 8 bits (fp8_param_gather). Those of MXFP8 are gathered
        # in 16 and cast after (Megatron-LM, core/distributed/param_and_grad_buffer.py).
        recipe = run.extra["fp8"]
        narrow = run.precision == "fp8" and recipe != "blockwise"
        found |= {"fp8_recipe": recipe, "fp8_param_gather": narrow}
    if run.group == "megatron_core_h100" and run.pp > 1:
        # Pipelines of that source overlap messages, which only interleaved ones do; the number of
        # chunks is an assumption.
        found["virtual_stages"] = run.model.fields["layers"] // run.pp
    found |= _said(run.extra)
    if run.extra.get("tp_overlap") == "false":
        found["overlap_tp"] = False
    if "async_tp" in run.extra:
        found["overlap_tp"] = True
    if run.extra.get("mode") == "eager":
        found["kernels"] = "eager"
    return nested(found)


def _captured(run: Training) -> dict[str, object]:
    """Options of a captured model: degrees, batch and formats."""
    left = {"virtual_stages", "zero_group"}
    found = {key: value for key, value in run.options.items() if key not in left}
    if "fp8" in run.extra:
        found["fp8_recipe"] = run.extra["fp8"]
    return found


def _said(extra: Mapping[str, str]) -> dict[str, object]:
    """Options that a source states as they are here."""
    found: dict[str, object] = {
        key: int(extra[key])
        for key in ("etp", "ep_node", "mtp", "recompute_layers")
        if key in extra
    }
    words = ("layers_per_stage", "recompute_modules", "recompute_method")
    found |= {key: extra[key] for key in words if key in extra}
    if "bucket_mb" in extra:
        found["bucket_mb"] = float(extra["bucket_mb"])
    if "overlap_passes" in extra:
        found["overlap_passes"] = True
    if "lora_rank" in extra:
        found |= {"lora_rank": int(extra["lora_rank"]), "lora_modules": extra["lora_modules"]}
    if "fused_experts" in extra:
        found |= {"separate_bias": False, "separate_clamp": False}
    return found


def _torchtitan(run: Training) -> dict[str, object]:
    """Options for the words of its tables. Interleaved pipelines have two chunks per stage by
    default; with scales of tensors its documents have 8-bit parameters gathered."""
    found: dict[str, object] = {"recompute": "ops"} if run.recompute == "selective" else {}
    if run.extra.get("schedule") == "int1f1b":
        found["virtual_stages"] = 2
    if run.precision == "fp8":
        rows = run.extra["fp8"] == "rowwise"
        found |= {"fp8_recipe": "rowwise" if rows else "tensorwise", "fp8_param_gather": not rows}
    return found


def machine(
    run: Training, room: bool = True, messages: bool = True
) -> tuple[str, dict[str, object]]:
    """The preset for the run's machine, and what to override; `room`: a tenth of every GPU's memory
    is free; `messages`: nanotron's block hosts where we say so."""
    preset, settings = stated_machine(run)
    if run.group not in LARGE:
        settings = run.framework.settings | settings
    if run.group in BOOSTED and run.gpu in ("H100", "H200"):
        settings |= BOOST
    if run.group == "nanotron_h100" and run.nodes > 1:
        settings |= nanotron.settings(run, room, messages)
    return preset, settings


def stated_machine(run: Training) -> tuple[str, dict[str, object]]:
    """The preset for the run's machine, and what its source states of it; nothing is fitted to the
    source's steps."""
    settings: dict[str, object] = {}
    if "fused_experts" in run.extra:
        settings |= {"npu.compute.kernel_per_expert": False}
    if run.gpu not in PRESETS:
        found = machines.machine(
            run.gpu, run.gpus, run.nodes, run.gpus // run.nodes or 1, hardware={}
        )
        assert isinstance(found, machines.Machine), found
        return found.preset, settings | found.settings
    one, many = PRESETS[run.gpu]
    if run.gpu == "H100-96GB":
        # HBM2e, and 500 W instead of 700: clocks go with the cube root.
        settings |= {"npu.memory.bandwidth": "2400 GB/s", "npu.compute.speedup": "0.89"}
    if run.nodes <= 1:
        return one, settings | {"topology": f"Switch({run.gpus})"}
    settings["topology"] = f"Switch(8)_Switch({run.nodes})"
    if run.group in NETWORKS:
        settings["links[1].bandwidth"] = NETWORKS[run.group]
    if run.group == "nanotron_h100":
        return "p5-16n", settings
    return many, settings


@dataclass(frozen=True, slots=True)
class TimePrediction:
    """A run, and our time of its step in seconds."""

    run: Training
    ours: float
    measured: float
    room: bool
    """Whether, we say, a tenth of every GPU's memory stays free; with less, allocators free and ask
    all the time."""

    @property
    def log(self) -> float:
        """ln(ours / measured)."""
        return math.log(self.ours / self.measured)

    @property
    def off(self) -> bool:
        """Whether a run of nanotron is off by a factor that only its hosts' other state
        explains."""
        return self.run.group == "nanotron_h100" and abs(self.log) >= math.log(OFF)


def predict(
    run: Training, backend: str = "analytical", messages: bool = True
) -> TimePrediction | None:
    """Our time of a run; `None` where it can't be laid out, or was not measured. `messages`: as for
    `machine`."""
    if run.iter_time_s is None or run.grade == "C":
        return None
    try:
        workload = build(run.model, **options(run))
    except InputError:
        return None
    platform, room = fitted_platform(run, workload, messages)
    time = simulate(workload, platform, backend=backend).step_time_ns / NS_PER_S
    return TimePrediction(run, time, run.iter_time_s, room)


def fitted_platform(
    run: Training, workload: Workload, messages: bool = True
) -> tuple[Platform, bool]:
    """The run's machine with all that was fitted, and whether a tenth of every GPU's memory stays
    free."""
    preset, settings = machine(run, messages=messages)
    room = held(workload) <= ROOM * peak_memory.capacity(preset)
    if not room:
        preset, settings = machine(run, room, messages)
    return Platform.load(preset, settings), room


def held(workload: Workload) -> int:
    """Bytes on the rank that holds most."""
    return max(kind.memory.total for kind in workload.summary.classes) if workload.summary else 0


@cache
def predictions(backend: str = "analytical") -> tuple[TimePrediction, ...]:
    """All runs in the order of their file."""
    found = (predict(run, backend) for run in trainings())
    return tuple(each for each in found if each is not None)
