"""Layouts drawn over the whole range that a search covers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from armillary.errors import InputError
from armillary.layouts.parts import Parts
from armillary.layouts.timing import Clock
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.workload.parallelism import Parallelism
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.placement import shortened, split_by_cost


@dataclass(frozen=True)
class Drawn:
    """Options of a layout, and the layout."""

    options: dict[str, object]
    par: Parallelism


def draw(model: str, ranks: int, count: int, seed: int) -> Iterator[Drawn]:
    """`count` layouts; at least half of them have pipelines, and experts where the model has."""
    rng = random.Random(seed)
    loaded = load_model(model)
    shape = decoder(loaded)
    found = 0
    while found < count:
        options = _options(rng, ranks, bool(shape.experts))
        if options is None:
            continue
        if options["pp"] != 1 and rng.random() < 0.3:
            parts = int(str(options["pp"])) * int(str(options.get("virtual_stages", 1)))
            options["layers_per_stage"] = shortened(split_by_cost(shape, parts))
        try:
            par = parallelism(shape, loaded.name, options)
        except InputError:
            continue
        found += 1
        yield Drawn(options, par)


def _options(rng: random.Random, ranks: int, experts: bool) -> dict[str, object] | None:
    tp, pp = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4, 8])
    cp = rng.choice([1, 1, 2])
    if ranks % (tp * pp * cp):
        return None
    dp = ranks // (tp * pp * cp)
    zero = rng.choice([0, 1, 1, 2, 3])
    options: dict[str, object] = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "zero": zero}
    schedule = rng.choice(["1f1b", "1f1b", "zb-h1", "gpipe", "dualpipe"]) if pp > 1 else "1f1b"
    options["schedule"] = schedule
    micro_batches = rng.choice([1, 2, 4, 8])
    if schedule == "1f1b" and pp > 1 and rng.random() < 0.5:
        options["virtual_stages"] = rng.choice([2, 4])
        micro_batches = pp * rng.choice([1, 2])
    if schedule == "dualpipe":
        micro_batches = 2 * pp + 2 * rng.choice([0, 1, 3])
    if schedule in ("1f1b", "dualpipe") and rng.random() < 0.3:
        options["overlap_passes"] = True
    options["recompute"] = rng.choice(["none", "selective", "full"])
    if options["recompute"] == "none" and rng.random() < 0.4:
        options["recompute_modules"] = rng.choice(["layernorm", "activation"])
    options |= _numbers(rng, options["recompute"] == "full")
    if zero and rng.random() < 0.3:
        options["zero_group"] = rng.choice([2, 4, 8])
    options["sp"] = tp > 1 and (experts or rng.random() < 0.6)
    if experts:
        options["ep"] = rng.choice([1, 2, 4, 8])
        if rng.random() < 0.4:
            options["etp"] = 1
    options["micro_batch"] = rng.choice([1, 1, 2])
    options["global_batch"] = int(str(options["micro_batch"])) * dp * micro_batches
    behaviour: dict[str, object] = {}
    if rng.random() < 0.2:
        behaviour["overlap_grad_reduce"] = False
    if rng.random() < 0.2:
        behaviour["overlap_param_gather"] = False
    if rng.random() < 0.2:
        behaviour["bucket_mb"] = rng.choice([25, 400])
    if behaviour:
        options["framework_set"] = behaviour
    return options


def _numbers(rng: random.Random, full: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    if full and rng.random() < 0.6:
        found["recompute_layers"] = rng.randint(1, 32)
    if rng.random() < 0.2:
        found["precision"] = "fp8"
    return found


def space_of(model: str, target: Platform, drawn: list[Drawn]) -> tuple[Parts, list[int]]:
    """The parts of some layouts, each a group of its own, and the index of its choice of data
    parallelism."""
    parts = Parts(decoder(load_model(model)), Clock(target))
    parts.measure(each.par for each in drawn)
    indices = []
    for each in drawn:
        par = each.par
        data = parts.data(par)
        indices.append(data)
        parts.space.group(
            parts.pipeline(par),
            parts.splits(par, (par.recompute_layers,)),
            parts.block(par),
            parts.messages(par),
            (data, data + 1),
        )
    return parts, indices
