"""Predicted times of training steps against measured ones, and whether they rank configurations
alike.

An error is `|ln(ours / measured)|`, given as a percentage. A GPU generation has one efficiency
model (`systems/`), whoever measured. A source has the framework it says it used (`frameworks/`),
with other options only where it says so (`SAID`), and the machine it says it used (`machine`). No
run has settings of its own. What was fitted, and to which runs, is in docs/reference/accuracy.md.
Here: language models. Not here: DLRM and ResNet-50 (`vision.py`)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from ..api import simulate
from ..errors import InputError
from ..platform import Platform
from ..study import Study, StudyRow, analytical, limit
from ..uncertainty import Residual, of
from ..units import NS_PER_S
from ..workload import build
from . import coverage, nanotron, peak_memory, vision
from .measurements import machines
from .scatter import scatter
from .training import FRAMEWORKS, Training, trainings

if TYPE_CHECKING:
    from ..report.chart import Chart

MEDIAN, NINTH, RANKS, BEST = 7.0, 17.0, 0.9, 5.0
"""What should hold: median and 90th percentile of errors, rank correlation, loss by choosing our
best, percent."""


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
"""What multiplications of an H100 then keep, 6 % more: fitted to dgxc-benchmarking's runs with 16
bits, and to all of these groups' with 8."""

COMPOSED = "vtrain_single"
"""Group whose times are sums: exactly linear in micro-batches and in layers, which no measured
steps are. So its 1,010 rows rest on measurements of 32 kinds of layers (two widths, four degrees of
tensor parallelism, four micro-batches)."""

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
"""What a GPU has between nodes where a source says other than the preset: 800 and 400 Gb/s a
node."""

FORMATS = {"bf16": "16 bits", "fp8": "8 bits", "nvfp4": "4 bits"}
INTERVALS: tuple[Callable[[Residual], str], ...] = (
    lambda each: each.labels["gpu"],
    lambda each: FORMATS[each.labels["format"]],
    lambda each: "models with experts" if each.labels["family"] == "experts" else "dense models",
    lambda each: each.labels["scale"],
)
"""Groups of left-out runs whose intervals are counted."""

OFF = 2.0
"""Runs off by this factor: nanotron's hosts were in the other state than we say (`nanotron.py`)."""


def options(run: Training) -> dict[str, object]:
    """What makes the run's workload."""
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
        # Its pipelines overlap messages, which only interleaved ones do; the number of chunks is an
        # assumption.
        found["virtual_stages"] = run.model.fields["layers"] // run.pp
    found |= _said(run.extra)
    if run.extra.get("tp_overlap") == "false":
        found["overlap_tp"] = False
    if "async_tp" in run.extra:
        found["overlap_tp"] = True
    if run.extra.get("mode") == "eager":
        found["kernels"] = "eager"
    return found


def _said(extra: Mapping[str, str]) -> dict[str, object]:
    """Options that a source states as they are here."""
    found: dict[str, object] = {
        key: int(extra[key]) for key in ("etp", "ep_node", "mtp") if key in extra
    }
    found |= {key: extra[key] for key in ("layers_per_stage", "recompute_modules") if key in extra}
    if "bucket_mb" in extra:
        found["bucket_mb"] = float(extra["bucket_mb"])
    if "overlap_passes" in extra:
        found["overlap_passes"] = True
    if "fused_experts" in extra:
        found |= {"separate_bias": False, "separate_clamp": False}
    return found


def _torchtitan(run: Training) -> dict[str, object]:
    """What the words of its tables are here. Interleaved pipelines have two chunks per stage by
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
    settings: dict[str, object] = {} if run.group in LARGE else run.framework.settings
    if run.group in BOOSTED and run.gpu in ("H100", "H200"):
        settings |= BOOST
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
        return "p5-16n", settings | nanotron.settings(run, room, messages)
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
    held = max(kind.memory.total for kind in workload.summary.classes) if workload.summary else 0
    preset, settings = machine(run, messages=messages)
    room = held <= 0.9 * peak_memory.capacity(preset)
    if not room:
        preset, settings = machine(run, room, messages)
    time = (
        simulate(workload, Platform.load(preset, settings), backend=backend).step_time_ns / NS_PER_S
    )
    return TimePrediction(run, time, run.iter_time_s, room)


@cache
def predictions(backend: str = "analytical") -> tuple[TimePrediction, ...]:
    """All runs in the order of their file."""
    found = (predict(run, backend) for run in trainings())
    return tuple(each for each in found if each is not None)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors of all and by source, rank correlations and what choosing our best loses; then the
    other models."""
    chosen = analytical(backends)
    return [*(row for backend in chosen for row in _rows(backend)), *vision.rows(chosen)]


def _rows(backend: str) -> Iterator[StudyRow]:
    found = predictions(backend)
    quiet = [each for each in found if each.run.group != "nanotron_h100" or each.run.nodes == 1]
    yield from _left_out(backend)
    yield from _errors("all but nanotron's on several nodes", quiet, backend, goal=True)
    whole = [each for each in quiet if each.run.group != COMPOSED]
    yield from _errors("the same without vTrain's sums on one node", whole, backend)
    for group in FRAMEWORKS:
        same = [each for each in quiet if each.run.group == group]
        yield from _errors(group, same, backend)
    for kind in sorted({_kind(each.run) for each in quiet}):
        same = [each for each in quiet if _kind(each.run) == kind]
        yield from _errors(kind, same, backend)
    yield from _errors("all runs", found, backend)
    many = [each for each in found if each.run.group == "nanotron_h100"]
    for nodes in sorted({each.run.nodes for each in many}):
        same = [each for each in many if each.run.nodes == nodes]
        yield from _errors(f"nanotron_h100, {nodes} nodes", same, backend)
    yield from _errors(
        "nanotron_h100, less what is off by a factor of two",
        [e for e in many if not e.off],
        backend,
    )
    yield from _errors(
        "all runs, if no messages blocked nanotron's hosts", _unblocked(found, backend), backend
    )
    for group in ("vtrain_single", "vtrain_multi", "nanotron_h100"):
        yield from _ranking(group, [each for each in found if each.run.group == group], backend)


def _kind(run: Training) -> str:
    """GPU and number format."""
    return f"{run.gpu.partition('-')[0]}, {run.precision.replace('fp16', 'bf16')}"


def _left_out(backend: str) -> Iterator[StudyRow]:
    """Errors for sources that a fit has not seen (`left_out_steps.py`): all, by GPU, by source, and
    by both where a source has several; then how many lie in the intervals of steps."""
    if backend != "analytical":
        return
    groups: dict[str, list[float]] = {}
    found = of("steps").residuals
    for each in found:
        gpu, source = each.labels["gpu"], each.source
        names = ["sources left out", f"sources left out, {gpu}", f"{source} left out"]
        if any(other.source == source and other.labels["gpu"] != gpu for other in found):
            names.append(f"{source} left out, {gpu}")
        for name in names:
            groups.setdefault(name, []).extend(map(abs, each.logs))
    for name, logs in sorted(groups.items(), key=lambda group: "sources" not in group[0]):
        ninth = sorted(logs)[math.ceil(0.9 * len(logs)) - 1]
        why = "fitted without the source"
        for what, log in (("median error", statistics.median(logs)), ("90th percentile", ninth)):
            label = f"{name} ({len(logs)}): {what}"
            yield StudyRow(label, backend, limit(None, "<"), percent(log), "%", why)
    yield from coverage.rows(of("steps"), " of steps", INTERVALS)


def _unblocked(found: Sequence[TimePrediction], backend: str) -> list[TimePrediction]:
    """The same runs without what was decided looking at their results (`nanotron.blocked`)."""
    again = (
        predict(each.run, backend, messages=False)
        if each.run.group == "nanotron_h100" and nanotron.blocked(each.run, each.room)
        else each
        for each in found
    )
    return [each for each in again if each is not None]


def percent(log: float) -> float:
    """An error as a percentage."""
    return 100 * (math.exp(abs(log)) - 1)


def _errors(
    name: str, found: Sequence[TimePrediction], backend: str, goal: bool = False
) -> Iterator[StudyRow]:
    if not found:
        return
    logs = sorted(abs(each.log) for each in found)
    ninth = logs[math.ceil(0.9 * len(logs)) - 1]
    ratio = math.exp(statistics.median(each.log for each in found))
    worst = sorted(found, key=lambda each: -abs(each.log))[:3]
    why = f"ours over measured {ratio:.2f}; worst: " + ", ".join(
        f"{e.run.name} {math.exp(e.log):.2f}" for e in worst
    )
    label = f"{name} ({len(found)})"
    middle = percent(statistics.median(logs))
    for what, most, error in (
        ("median error", MEDIAN, middle),
        ("90th percentile", NINTH, percent(ninth)),
    ):
        reference = limit(most if goal else None, "<")
        yield StudyRow(f"{label}: {what}", backend, reference, error, "%", why)


def choices(found: Sequence[TimePrediction]) -> list[list[TimePrediction]]:
    """Configurations of one model on the same number of GPUs of a kind, among which one could
    choose: five at least."""

    def what(each: TimePrediction) -> tuple[str, str, int]:
        return each.run.model.name, each.run.gpu, each.run.gpus

    sets = [list(same) for _, same in groupby(sorted(found, key=what), what)]
    return [same for same in sets if len(same) >= 5]


def spearman(found: Sequence[TimePrediction]) -> float:
    """Rank correlation of our times and measured ones; 0 where either are all the same."""
    ours, measured = ([getattr(e, key) for e in found] for key in ("ours", "measured"))
    if len(set(ours)) == 1 or len(set(measured)) == 1:
        return 0.0
    return statistics.correlation(_ranks(ours), _ranks(measured))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values their mean."""
    order = sorted(values)
    first = {value: order.index(value) + 1 for value in set(values)}
    return [first[value] + (order.count(value) - 1) / 2 for value in values]


def lost(found: Sequence[TimePrediction]) -> float:
    """By how much a token takes longer on the configuration with room that we say is the fastest
    than on the fastest, percent."""
    with_room = [each for each in found if each.room] or found
    chosen = min(with_room, key=lambda each: each.ours / each.run.global_batch)
    best = min(each.measured / each.run.global_batch for each in found)
    return 100 * (chosen.measured / chosen.run.global_batch / best - 1)


def _ranking(group: str, found: Sequence[TimePrediction], backend: str) -> Iterator[StudyRow]:
    sets = choices(found)
    yield from _rank_rows(group, sets, backend)
    if group == "nanotron_h100":
        few = [same for same in sets if same[0].run.nodes <= 4]
        yield from _rank_rows(f"{group}, up to 4 nodes", few, backend)
        steady = choices([each for each in found if not each.off])
        yield from _rank_rows(f"{group}, less what is off by a factor of two", steady, backend)


def _rank_rows(
    name: str, sets: Sequence[Sequence[TimePrediction]], backend: str
) -> Iterator[StudyRow]:
    if not sets:
        return
    label = f"{name} ({len(sets)} choices of {sum(map(len, sets))} configurations)"
    weighted = sum(spearman(same) * len(same) for same in sets) / sum(map(len, sets))
    worst = min(sets, key=spearman)
    why = (
        f"worst: {worst[0].run.model.name} on {worst[0].run.gpus} GPUs, {spearman(worst):.2f} "
        f"of {len(worst)}"
    )
    least = limit(RANKS, ">")
    yield StudyRow(f"{label}: rank correlation", backend, least, weighted, "", why)
    losses = [lost(same) for same in sets]
    near = sum(loss <= BEST for loss in losses)
    why = f"within {BEST:.0f} % in {near} of {len(losses)}; worst {max(losses):.0f} %"
    most, middle = limit(BEST, "<"), statistics.median(losses)
    yield StudyRow(f"{label}: median loss by our best", backend, most, middle, "%", why)


def charts(rows: Sequence[StudyRow]) -> list[Chart]:
    """Our times over measured ones, a point a run."""
    del rows
    records = [
        {
            "run": p.run.name,
            "source": p.run.group,
            "measured": round(p.measured, 4),
            "ours": round(p.ours, 4),
        }
        for p in predictions()
    ]
    return [scatter("training-steps", "Time of a step, ours over measured", "s", records, "source")]


STUDY = Study(
    "Training steps: predicted against measured times",
    "published tables; each group's source is in validation/measured/training_groups.csv",
    "Presets' efficiencies, one for each GPU generation; what a source says of its software and "
    "machine. Reference: a "
    "limit that we chose. Rows read off figures (grade C) are left out.",
    rows,
    charts,
)
