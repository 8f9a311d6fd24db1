"""Peak memory of a rank, added up tensor by tensor, and layouts to add up."""

from __future__ import annotations

import random
from collections.abc import Iterator

from armillary.errors import InputError
from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.workload import zero
from armillary.workload.decoder_plan import DecoderPlan
from armillary.workload.memory import loss, metric_logits
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.plan import Unit
from armillary.workload.setting import Setting
from armillary.workload.summary import Memory, Offloaded


def added_up(plan: DecoderPlan, stage: int) -> tuple[Memory, Offloaded]:
    """The most bytes that a rank of a stage holds, and the bytes offloaded from it."""
    par, at = plan.at.par, plan.at
    units = [unit for chunk in plan.stages[stage] for unit in chunk.units]
    copies = {unit.name: unit for unit in units}
    has_head = "head" in copies
    trained = plan.trained(stage)
    all_ = plan.weights(stage)
    own = plan.owned(stage)
    # Rajbhandari et al. 2020, figure 1: each stage of ZeRO cuts one thing more.
    counts = (
        own + zero.owned(all_ - trained, par) if par.zero == 3 else all_.total,
        own if par.zero >= 2 else trained.total,
        own if par.zero >= 1 else trained.total,
    )
    widths = (par.bytes.weight, par.gradient_bytes, par.bytes.optimizer)
    parts = [count * width for count, width in zip(counts, widths, strict=True)]
    leaves = {"none": (), "optimizer": (2,), "parameters": (0, 1, 2)}[par.offload]
    away = Offloaded(*(part if i in leaves else 0 for i, part in enumerate(parts)))
    here = [0 if i in leaves else part for i, part in enumerate(parts)]
    largest = max(unit.weights.total for unit in units)
    here[0] += 2 * largest * par.bytes.weight if par.zero == 3 else 0
    here[0] += sum(2 * unit.narrow for unit in units)
    gone = loss(at) if has_head else 0
    kept, at_once = _walked(plan, stage, gone)
    again = at_once - kept if par.recompute_layers is not None else max(plan.dropped() - gone, 0)
    activations = max(kept, metric_logits(at)) if has_head else kept
    whole = 4 * at.full if par.sp and par.tp > 1 else 0
    moved = whole + _moved(plan, units) + again
    return Memory(here[0], here[1], here[2], activations, moved), away


def _walked(plan: DecoderPlan, stage: int, gone: int) -> tuple[int, int]:
    """Most bytes that are kept for backward passes, without and with what comes back in one."""
    passes, chunks = plan.order(stage), plan.stages[stage]
    late = {(each.micro_batch, each.chunk) for each in passes if each.kind == "W"}
    live: dict[tuple[int, int], int] = {}
    kept = at_once = 0
    for each in passes:
        key = each.micro_batch, each.chunk
        units = chunks[each.chunk].units
        if each.kind == "F":
            live[key] = sum(unit.activations for unit in units)
        kept = max(kept, sum(live.values()))
        if each.kind == "B":
            freed = gone
            for unit in reversed(units):
                at_once = max(at_once, sum(live.values()) + unit.back - freed)
                freed += 0 if late else unit.spared
        if each.kind == "W" or (each.kind == "B" and key not in late):
            del live[key]
    return kept, max(kept, at_once)


def _moved(plan: DecoderPlan, units: list[Unit]) -> int:
    """Gradients on their way to where they are kept, and placeholders."""
    par, width = plan.at.par, plan.at.par.bytes.weight
    most = max(unit.trained.total for unit in units)
    if par.zero == 3:
        return most * par.gradient_bytes
    if par.kernels == "fused":
        local = max(plan.at.model.experts // par.ep, 1)
        shapes = {
            unit.name: unit.trained.dense + unit.trained.expert // local
            for unit in units
            if "embedding" not in unit.name
        }
        head = shapes.pop("head", 0)
        return width * (head + max(shapes.values(), default=0))
    if not par.fp32_gradients and not par.overlap_grad_reduce:
        layers = [unit for unit in units if unit.name not in ("embedding", "head")] or units
        sizes = [each for unit in layers for each in (*unit.tensors.dense, *unit.tensors.expert)]
        return width * max(sizes, default=0)
    buckets = sum(unit.trained.total for unit in units) if par.copies > 1 and par.zero < 2 else 0
    return width * buckets + (width + 4) * most


def drawn(name: str, count: int, seed: int) -> Iterator[tuple[dict[str, object], DecoderPlan]]:
    """Layouts over all options that decide memory."""
    rng = random.Random(seed)
    model = load_model(name)
    shape = decoder(model)
    found = 0
    while found < count:
        options = _options(rng, shape)
        try:
            par = parallelism(shape, name, options)
        except InputError:
            continue
        found += 1
        yield options, DecoderPlan(Setting(shape, par))


def _options(rng: random.Random, shape: Decoder) -> dict[str, object]:
    tp, pp, dp = rng.choice([1, 2, 4]), rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 4, 8])
    options: dict[str, object] = {"tp": tp, "pp": pp, "dp": dp, "cp": rng.choice([1, 1, 2])}
    micro_batch, micro_batches = rng.choice([1, 2]), rng.choice([1, 2, 4, 8])
    if pp > 1:
        options["schedule"] = rng.choice(["1f1b", "1f1b", "zb-h1", "gpipe", "dualpipe"])
        if options["schedule"] == "dualpipe":
            micro_batches = 2 * pp
        elif options["schedule"] == "1f1b" and rng.random() < 0.5:
            options["virtual_stages"], micro_batches = 2, pp * rng.choice([1, 2])
    options["micro_batch"], options["global_batch"] = micro_batch, micro_batch * dp * micro_batches
    options["sp"] = tp > 1 and (bool(shape.experts) or rng.random() < 0.5)
    options["recompute"] = again = rng.choice(["none", "selective", "ops", "full", "full"])
    if shape.experts:
        options["ep"] = rng.choice([1, 2, 4])

    def sometimes(name: str, *values: object) -> None:
        if rng.random() < 0.25:
            options[name] = rng.choice(values)

    options["zero"] = rng.choice([0, 1, 2, 3])
    if again in ("none", "selective"):
        sometimes("recompute_modules", "layernorm", "activation", "layernorm,activation", "mlp")
    if again == "full":
        sometimes("recompute_layers", 1, 2, 3, 5)
        sometimes("recompute_method", "block", "uniform")
    sometimes("attention", "unfused")
    sometimes("precision", "fp8", "fp32", "nvfp4")
    sometimes("fp8_weight_cache", True)
    sometimes("lora_rank", 8, 16)
    sometimes("fp32_gradients", True)
    sometimes("moments", "bf16")
    sometimes("offload", "optimizer", "parameters")
    sometimes("zero_group", 2, 4)
    sometimes("mtp", 1)
    behaviour = {
        "kernels": "eager",
        "loss": "fused",
        "loss_metrics": 2,
        "overlap_grad_reduce": False,
        "whole_tensors": True,
        "gathered_logits": True,
    }
    chosen = {key: value for key, value in behaviour.items() if rng.random() < 0.2}
    if rng.random() < 0.3:
        chosen["kernels"] = "eager"
    return {**options, "framework_set": chosen}
