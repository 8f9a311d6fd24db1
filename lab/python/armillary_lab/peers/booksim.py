"""Reference runs of BookSim2 on the input-queued router: `armillary_lab.peers.flits` runs them.

How far a figure may be off follows from how far BookSim2's own seeds differ: by 0.2 % at low load,
1.2 to 2.5 % at medium load, 6 % near saturation (`booksim_seed_noise.json`). Latencies are cycles,
loads are flits per node and cycle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from .._peers import booksim_alone, booksim_at_load, booksim_batches
from .figures import Case, Figure

if TYPE_CHECKING:
    from .._peers import BookSimBatches, BookSimRouter, BookSimRun, Grid

MEDIUM = 0.6
"""Share of the saturation load up to which latency is within `QUIET`, above within `NOISY`."""
JUDGED = 0.9
"""Share of the saturation load up to which latency is judged."""
QUIET, NOISY = 0.025, 0.06
DEVIATIONS = 3.0
"""Standard deviations of our own seeds that a latency may be off, where that is more."""
BRACKET = 0.03
"""How far saturation may be outside its bracket."""
BATCH = 0.07
"""How far the mean of batches at random may be off: one batch differs by 2 to 7 % from another."""
SEEDS, FEW, MANY = 4, 3, 7
"""Seeds of a latency; of a saturation, and if they are not clear."""
BATCH_SEEDS = 12
STEP = 0.01
"""How finely saturation is looked for, as a share of it."""
CYCLES = 96_000
"""Nodes times cycles of a sample, where a file names no period."""
WARMUP, MOST, LIMIT = 3, 9, 300.0
"""Periods before a sample, samples at most, and the latency of a saturated network, where a file
names none."""
ROUTER = "rc1va1sa1st1, VCs 4, buf 8, link 1"
"""The router where a file names none."""

_WORDS: dict[str, str] = {
    "routing": r"(?:rc|routing_delay) ?(\d+)",
    "channel_allocation": r"(?:va|vc_alloc_delay) ?(\d+)",
    "switch_allocation": r"(?:sa|sw_alloc_delay) ?(\d+)",
    "traversal": r"(?:st|st_final_delay) ?(\d+)",
    "speculative": r"speculative (\d+)",
    "credit_processing": r"credit_delay (\d+)",
    "channels": r"VCs? (\d+)",
    "buffer": r"buf(?:fers?)? (\d+)",
}
_UNSUPPORTED: dict[str, tuple[float | str, ...]] = {
    "routing_function": ("dim_order", "dor"),
    "vc_allocator": ("islip",),
    "sw_allocator": ("islip",),
    "internal_speedup": (1.0,),
    "input_speedup": (1.0,),
    "output_speedup": (1.0,),
    "st_prepare_delay": (0.0,),
    "output_delay": (0.0,),
}
"""Keys of BookSim2 that must have one of these values."""


def zero_load(case: Case) -> list[Figure]:
    """Latency of an empty network, by links between routers: exact."""
    found = booksim_alone({**_setup(case), "flits": _flits(case)})
    return [
        Figure(f"latency, {links} links", float(latency), found.get(int(links)), 0.0)
        for links, latency in case["min_latency_by_link_hops"].items()
    ]


def batch(case: Case) -> list[Figure]:
    """Cycles of batches in a row: exact where nothing is at random, else the mean of seeds."""
    expected = [float(cycles) for cycles in case["batch_cycles"]]
    run: BookSimBatches = {
        **_setup(case),
        "pattern": str(case["traffic"]),
        "flits": _flits(case),
        "packets": int(case["packets_per_node"]),
        "batches": len(expected),
    }
    if case["deterministic"]:
        cycles = booksim_batches({**run, "seed": 1})
        found: Sequence[int | None] = [None] * len(expected) if cycles is None else cycles
        rows = enumerate(zip(expected, found, strict=True), start=1)
        return [Figure(f"batch {at}", wanted, ours, 0.0) for at, (wanted, ours) in rows]
    runs = [booksim_batches({**run, "seed": seed}) for seed in range(1, BATCH_SEEDS + 1)]
    ended = [cycles for cycles in runs if cycles is not None]
    mean = None if len(ended) < len(runs) else fmean(cycle for cycles in ended for cycle in cycles)
    return [Figure("batches, mean", fmean(expected), mean, BATCH)]


def seed_noise(case: Case) -> list[Figure]:
    """Mean latency over seeds, as near as BookSim2's own seeds are to each other."""
    theirs = [float(latency) for latency, _ in case["lat_acc"]]
    ours = _latencies(_load(case), float(case["offered"]))
    spread = (max(theirs) - min(theirs)) / fmean(theirs)
    return [_latency("latency, mean", fmean(theirs), ours, spread)]


def curve(case: Case) -> list[Figure]:
    """Latency up to 0.9 of saturation, and the load at which the network saturates."""
    run = _load(case)
    low, high = (None if load is None else float(load) for load in case["saturation_bracket"])
    rows = []
    for point in case["points"]:
        load, expected = float(point["offered"]), point.get("packet_latency")
        if expected is None or low is None or load > JUDGED * low:
            continue
        ours = _latencies(run, load)
        noise = QUIET if load <= MEDIUM * low else NOISY
        rows.append(_latency(f"latency at {load:g}", float(expected), ours, noise))
    if low is not None:
        rows.append(_saturation(run, low, high))
    return rows


def _latency(name: str, expected: float, ours: list[float] | None, noise: float) -> Figure:
    """The mean of seeds. It may be off by the noise, or by what our own seeds differ."""
    if ours is None:
        return Figure(name, expected, None, noise)
    deviation = stdev(ours) / fmean(ours) * sqrt(1 + 1 / len(ours))
    return Figure(name, expected, fmean(ours), max(noise, DEVIATIONS * deviation))


def _latencies(run: BookSimRun, load: float) -> list[float] | None:
    seeds = range(1, SEEDS + 1)
    found = [booksim_at_load({**run, "load": load, "seed": seed})["latency"] for seed in seeds]
    stable = [latency for latency in found if latency is not None]
    return stable if len(stable) == len(found) else None


def _saturation(run: BookSimRun, low: float, high: float | None) -> Figure:
    """The largest load without saturation: the median of seeds. Where they differ by more than the
    bracket may be off, as where traffic locks into a slow order in some runs only, the nearest.
    """
    most = min(float(run["flits"]), 1.0)
    upto = most if high is None else high
    found = [_saturates(run, low, upto, most, seed) for seed in range(1, FEW + 1)]
    row = Figure("saturation", low, median(found), BRACKET, upto)
    if row.ok:
        return row
    found += [_saturates(run, low, upto, most, seed) for seed in range(FEW + 1, MANY + 1)]
    middle = median(found)
    if max(found) - min(found) > BRACKET * middle:
        middle = min(found, key=lambda load: max(low - load, load - upto, 0.0))
    return Figure("saturation", low, middle, BRACKET, upto)


def _saturates(run: BookSimRun, low: float, high: float, most: float, seed: int) -> float:
    """Saturation by bisection, from 25 % beyond both ends of the bracket."""
    below, above = 0.75 * low, min(1.25 * high, most)
    if _stable(run, above, seed):
        return above
    if not _stable(run, below, seed):
        return 0.0
    while above - below > STEP * low:
        load = (below + above) / 2
        if _stable(run, load, seed):
            below = load
        else:
            above = load
    return (below + above) / 2


def _stable(run: BookSimRun, load: float, seed: int) -> bool:
    return booksim_at_load({**run, "load": load, "seed": seed})["latency"] is not None


def _load(case: Case) -> BookSimRun:
    """All of a run at a load but the load itself."""
    config = case.get("config", {})
    setup = _setup(case)
    period = max(1, round(CYCLES / min(setup["k"] ** setup["n"], CYCLES)))
    flits = _flits(case)
    if not int(config.get("injection_rate_uses_flits", 1)):
        raise ValueError("injection_rate_uses_flits is 0; allowed: 1")
    return {
        **setup,
        "pattern": str(case.get("traffic", config.get("traffic", "uniform"))),
        "flits": flits,
        "period": int(config.get("sample_period", min(period, 6000))),
        "warmup": int(config.get("warmup_periods", WARMUP)),
        "most": int(config.get("max_samples", MOST)),
        "limit": float(config.get("latency_thres", LIMIT)),
    }


def _flits(case: Case) -> int:
    config = case.get("config", {})
    flits = case.get("packet_flits", case.get("packet_size", config.get("packet_size")))
    if flits is None:
        raise KeyError("packet_flits")
    return int(flits)


def _setup(case: Case) -> BookSimRouter:
    """The network: from `config` where there is one, else from what a text says of the router."""
    config = case.get("config")
    return _of_text(case) if config is None else _of_config(config)


def _of_config(config: Case) -> BookSimRouter:
    for key, allowed in _UNSUPPORTED.items():
        value = config.get(key, allowed[0])
        plain = value if isinstance(allowed[0], str) else float(value)
        if plain not in allowed:
            raise ValueError(f"{key} is {value}; allowed: {', '.join(map(str, allowed))}")
    kind = str(config["topology"])
    if kind not in ("torus", "mesh"):
        raise ValueError(f"topology is {kind}; allowed: torus, mesh")
    slow = bool(int(config.get("use_noc_latency", 0))) and kind == "torus"
    return {
        **_grid(kind, int(config["k"]), int(config["n"])),
        "link_latency": 2 if slow else 1,
        "channels": int(config["num_vcs"]),
        "buffer": int(config["vc_buf_size"]),
        "routing": int(config["routing_delay"]),
        "channel_allocation": int(config["vc_alloc_delay"]),
        "switch_allocation": int(config["sw_alloc_delay"]),
        "traversal": max(1, int(config["st_final_delay"])),
        "credit_processing": int(config.get("credit_delay", 0)),
        "speculative": int(config.get("speculative", 0)),
        "waits_for_tail_credit": int(config.get("wait_for_tail_credit", 0)),
        "iterations": int(config.get("alloc_iters", 1)),
    }


def _of_text(case: Case) -> BookSimRouter:
    """`rc1va1sa1st1, VCs 4, buf 8, link 1`, or parts of it in `router_config` and names of routers
    as `la_spec_tailcredit`: routes looked up ahead, speculation, waiting for the tail's credit.
    """
    topology = str(case.get("topology", case.get("topo")))
    sizes = re.fullmatch(r"(ring|torus|mesh)_(\d+)((?:x\2)*)", topology)
    if sizes is None:
        raise ValueError(
            f"topology is {topology}; allowed: ring_8, torus_4x4x4, mesh_8x8 and alike"
        )
    name = str(case.get("router", ""))
    text = str(case.get("router_config", name))
    found: dict[str, int] = {}
    for key, pattern in _WORDS.items():
        default = re.search(pattern, ROUTER)
        words = re.search(pattern, text) or default
        found[key] = int(words[1]) if words else 0
    if re.search(r"\b(la|lookahead)(_|\b)", name):
        found["routing"] = 0
    if "spec" in name.split("_"):
        found["speculative"] = 1
    found["waits_for_tail_credit"] = int("tailcredit" in name)
    if "t_router" in case:
        found["traversal"] = int(case["t_router"]) - _before_traversal(found)
    kind = "mesh" if sizes[1] == "mesh" else "torus"
    links = re.search(rf"(?:{kind} |, ?|^)link (\d+)", text)
    link = case.get("t_link", links[1] if links else 1)
    grid = _grid(kind, int(sizes[2]), 1 + sizes[3].count("x"))
    return {
        **grid,
        "link_latency": int(link),
        "channels": found["channels"],
        "buffer": found["buffer"],
        "routing": found["routing"],
        "channel_allocation": found["channel_allocation"],
        "switch_allocation": found["switch_allocation"],
        "traversal": found["traversal"],
        "credit_processing": found["credit_processing"],
        "speculative": found["speculative"],
        "waits_for_tail_credit": found["waits_for_tail_credit"],
        "iterations": 1,
    }


def _before_traversal(found: Mapping[str, int]) -> int:
    routing, channel, switch = (
        found[key] for key in ("routing", "channel_allocation", "switch_allocation")
    )
    return routing + (max(channel, switch) if found["speculative"] else channel + switch)


def _grid(kind: str, k: int, n: int) -> Grid:
    return {"k": k, "n": n, "wraps": int(kind == "torus")}


def kind(case: Case) -> str:
    """Which of `RUNS` a case is for, by its keys; empty if none."""
    keys = {
        "min_latency_by_link_hops": "zero_load",
        "batch_cycles": "batch",
        "lat_acc": "seed_noise",
        "saturation_bracket": "curve",
    }
    return next((name for key, name in keys.items() if key in case), "")


RUNS = {"zero_load": zero_load, "batch": batch, "seed_noise": seed_noise, "curve": curve}


def title(case: Case) -> str:
    """Distinctive settings of a case, in a line."""
    if "id" in case:
        return str(case["id"])
    names = ("topology", "topo", "traffic", "router", "offered")
    parts = [str(case[name]) for name in names if name in case]
    return " ".join([*parts, f"packets of {_flits(case)}"])
