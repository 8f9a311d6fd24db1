"""Measures searches for layouts: layouts per CPU second, and whole searches.

`python lab/bench/python/layouts.py rates` prints one row for each ZeRO stage: memory, bound and
estimate of every layout of a space, start-up excluded. `large` prints a search of Llama-3-405B on
16,384 H100, `networks` one of Llama-3-70B over four networks. Times are CPU seconds of one process.
Results are in `lab/results/<date>-layouts.md`."""

from __future__ import annotations

import argparse
import resource
import time

from armillary.layouts import search
from armillary.layouts.job import SIMULATIONS, Job
from armillary.layouts.machine_plan import MachinePlan
from armillary.layouts.run import plan_layouts
from armillary.layouts.search import opened
from armillary.platform import Platform

EVERYTHING = 2**62
"""Bytes that every layout fits in."""
LONG: dict[str, tuple[object, ...]] = {
    "tp": (1, 4),
    "micro_batch": (1,),
    "virtual_stages": (1, 2, 5),
    "recompute_modules": (None, "layernorm"),
    "recompute_layers": (None,),
    "zero_group": (None,),
}
NETWORKS = ("dgx-h100-16n", "dgx-a100-16n", "hgx-h200-16n", "dgx-b200-16n")


def rates() -> None:
    """Memory, bound and estimate of 2,193 layouts of Llama-3-70B on 512 H100 for each ZeRO stage.
    Their micro-batches have one sample, so that pipelines are long."""
    print("| ZeRO | layouts | CPU s | layouts / CPU s |\n| --- | --- | --- | --- |")
    target = Platform.load("dgx-h100-16n", npus=512)
    for zero in range(4):
        given = {**LONG, "zero": (zero,)}
        space = opened(Job.of("llama-3-70b", 512, global_batch=1024, layout=given), target).space
        core = space.parts.space
        begun = time.process_time()
        core.search((EVERYTHING, EVERYTHING), False, (core.layouts, 0), None)
        taken = time.process_time() - begun
        print(f"| {zero} | {core.kept:,} | {taken:.2f} | {core.kept / taken:,.0f} |")


def large(simulations: int) -> None:
    """The whole space of Llama-3-405B on 16,384 H100."""
    begun = time.process_time()
    found = search(
        "llama-3-405b", "dgx-h100-16n", 16384, global_batch=2048, simulations=simulations
    )
    _row(begun, found.layouts, len(found.best), found.gap)


def networks() -> None:
    """Llama-3-70B on 512 NPUs of four platforms."""
    begun = time.process_time()
    given = {"zero_group": (None,), "layers_per_stage": (None,)}
    found = plan_layouts("llama-3-70b", NETWORKS, 512, global_batch=1024, layout=given)
    assert isinstance(found, MachinePlan), "several machines"
    layouts = sum(each.layouts for each in found.machines)
    tried = sum(len(each.plan.best) for each in found.machines if each.plan)
    _row(begun, layouts, tried, found.gap)


def _row(begun: float, layouts: int, simulated: int, gap: float) -> None:
    taken = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print("| layouts | simulated | gap | CPU s | peak GB |\n| --- | --- | --- | --- | --- |")
    print(f"| {layouts:,} | {simulated} | {gap:.2%} | {taken:.1f} | {memory:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rates", "large", "networks"))
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    options = parser.parse_args()
    if options.what == "rates":
        rates()
    elif options.what == "large":
        large(options.simulations)
    else:
        networks()
