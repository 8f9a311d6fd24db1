"""The levels of measured machines, and the fit of all presets' libraries to all sweeps at once.

`python -m armillary_lab.fit.libraries` fits, and prints the departures of each level with the
number of measurements that constrain each. Presets hold the result
(`systems/parts/library`, `library_presets.py` writes it). Method: `hierarchy.py`.

| parameters | levels, from the widest |
| --- | --- |
| within a node | all, library, GPU generation, kind of node |
| between nodes | all, kind of network, cluster, its setup |
| efficiency between nodes | all, kind of network, path to the GPU, cluster, its setup |
| interval between messages | kind of network, cluster, its setup |
| trees between two nodes | stated by GPU generation, all, GPU generation, cluster, its setup |
| a call's start | all, library, GPU generation, kind of network, cluster, its setup, host |

A tray of a rack is as other nodes of its GPUs. Rings over several trays, and NVLS, have departures
of the kind of node NVL72 in addition (`LIKE`).

A host's part of a call's start can't be known for another host. It takes part in fits and never in
predictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from armillary.calibrate import Case, MeasuredTable
from armillary.calibrate.case import parameters
from armillary.calibrate.fit import LONGEST_STEPS
from armillary.platform import Platform
from armillary.uncertainty import DIGITS, Residual
from armillary.uncertainty.collectives import KIND, MACHINE, NEITHER, Place, generation, network

from ..measured import one_node
from ..measured.sweeps import LARGE, SEND, SMALL, MeasuredSweep, band, sweeps
from .hierarchy import HOST, SCALES, Levels, Member, Observed, Prior, Variable

RACKS = frozenset({"GB200", "GB300"})
"""GPUs of several hosts that share a switch."""

LIKE: Mapping[str, str] = {
    f"node.hosts.{key}": f"node.{key}"
    for key in ("efficiency", "step_latency[0]", "step_latency[1]", "step_latency[2]")
}
"""Parameters of rings over several hosts of a rack, and the parameters that they start from."""

_IN_ONE: dict[str, Prior] = {
    "call_overhead": Prior(12.0, 0.7, 1.0, 400.0),
    "node.efficiency": Prior(0.8, 0.1, 0.4, 0.98),
    "node.ramp_up": Prior(0.15, 0.5, 0.01, 1.0),
    "node.step_latency[0]": Prior(0.6, 0.5, 0.25, LONGEST_STEPS[0]),
    "node.step_latency[1]": Prior(1.9, 0.5, 0.25, LONGEST_STEPS[1]),
    "node.step_latency[2]": Prior(3.4, 0.5, 0.25, LONGEST_STEPS[2]),
    "node.simple_overhead": Prior(10.0, 0.5, 1.0, 60.0),
    "node.ll_efficiency[0]": Prior(0.25, 0.4, 0.05, 0.5),
    "node.ll_efficiency[1]": Prior(0.88, 0.1, 0.5, 0.9375),
    "node.tree_efficiency": Prior(0.75, 0.2, 0.05, 0.95),
    "node.peer_latency": Prior(4.0, 0.5, 0.2, 30.0),
    "node.all_to_all_efficiency": Prior(0.75, 0.1, 0.4, 0.98),
    "node.ll_peer.latency": Prior(2.0, 0.5, 0.2, 30.0),
    "node.ll_peer.efficiency": Prior(0.02, 0.5, 0.002, 0.5),
    "nvls.efficiency": Prior(0.65, 0.1, 0.4, 0.95),
    "nvls.latency": Prior(50.0, 0.4, 20.0, 150.0),
    "nvls.ramp_latency": Prior(2.0, 0.7, 0.1, 30.0),
    "network.efficiency": Prior(0.88, 0.1, 0.4, 0.98),
    "network.step_latency[0]": Prior(4.0, 0.5, 1.35, 40.0),
    "network.step_latency[1]": Prior(8.0, 0.5, 2.0, 100.0),
    "network.step_latency[2]": Prior(14.0, 0.5, 7.0, 150.0),
    "network.tree_level_latency[0]": Prior(5.0, 0.5, 2.5, 40.0),
    "network.tree_level_latency[1]": Prior(8.5, 0.5, 4.25, 100.0),
    "network.tree_level_latency[2]": Prior(14.0, 0.5, 7.0, 150.0),
    "network.step_interval": Prior(1.5, 0.6, 0.1, 30.0),
    "network.ll_efficiency[0]": Prior(0.06, 0.5, 0.01, 0.5),
    "network.ll_efficiency[1]": Prior(0.8, 0.3, 0.1, 0.9375),
    "network.tree_efficiency": Prior(0.9, 0.1, 0.3, 1.0),
    "network.two_node_tree_efficiency": Prior(0.9, 0.1, 0.2, 1.0),
    "network.scale_loss": Prior(0.02, 0.7, 0.001, 0.6),
    "network.peer_latency": Prior(3.0, 0.6, 0.2, 30.0),
    "network.all_to_all_efficiency": Prior(0.85, 0.15, 0.2, 0.98),
    "network.inline.peer_latency": Prior(5.0, 0.5, 1.0, 30.0),
}
PRIORS: Mapping[str, Prior] = _IN_ONE | {key: _IN_ONE[one] for key, one in LIKE.items()}
"""Centres of steps and levels are NCCL's own constants (NVIDIA/nccl@5067397c src/graph/tuning.cc
line 149), rounded up between nodes. Half of what LL sends is flags, and a sixteenth of LL128:
bounds of their parts. Lower bounds of steps between nodes are half of NCCL's constants, upper
bounds about ten times them. `step_interval` begins between NCCL's overheads of a post on Intel and
on AMD (`getNetOverhead` there: 1 and 2 us). A peer takes a message each way."""

SPREADS: Mapping[str, float] = {
    "all": 1.0,
    "library": 1.0,
    "generation": 1.0,
    "node": 0.7,
    "network": 1.0,
    "path": 0.7,
    "cluster": 0.7,
    "setup": 0.7,
    HOST: 1.0,
}

_RATES = ("network.efficiency", "network.all_to_all_efficiency")
"""Rates that depend on the path from a GPU to its card, which a generation of GPUs and a kind of
network have in common."""
_TREE_OF_TWO = "network.two_node_tree_efficiency"
"""Parameter that depends on the generation of GPUs (`STATED_TREES`), and not on the network."""
_INTERVAL = "network.step_interval"
"""Parameter that depends on the network's software, so no kind of network informs another: 1 to 2
us in NCCL's model, about 8 us on Slingshot."""
_LATENCIES = tuple(
    f"network.{kind}_latency[{at}]" for kind in ("step", "tree_level") for at in range(3)
)
STATED_LATENCY: Mapping[str, float] = {"EFA": 20.0, "p4d-16n": 75.0}
"""Latency of a step between nodes that the maker of a network's plugin states, by kind of network
or preset, us. p5 and its successors: the plugin's own model of all-reduces, which has the form of
ours (aws/aws-ofi-nccl@39397b33 src/tuner/nccl_ofi_model.cpp). p4d: the latency that the plugin
reports to NCCL (@01666ece src/platform-aws.cpp)."""
_COMPLETION = 3.0
"""Additional time of a step with Simple there, us."""
STATED_TREES: Mapping[str, float] = {"Volta": 18.5 / 41.4, "Ampere": 23.6 / 41.4}
"""Bandwidth of a channel of NCCL's trees between two nodes, by GPU generation, as a part of that on
Hopper (NVIDIA/nccl@5067397c src/graph/tuning.cc, `perChMaxTreeBws`)."""
_STATED = "stated"
"""The level of what is stated, which chains begin with."""


def stated() -> Mapping[Variable, float]:
    """Stated values, as departures from the centres of priors."""
    latencies = {
        (_STATED, member, key): math.log(us + (_COMPLETION if "[2]" in key else 0.0))
        - math.log(PRIORS[key].centre)
        for member, us in STATED_LATENCY.items()
        for key in _LATENCIES
    }
    trees = {(_STATED, gpus, _TREE_OF_TWO): math.log(part) for gpus, part in STATED_TREES.items()}
    return latencies | trees


OF_ONE_NODE = (0.05, 0.05, 0.05)
"""Error that counts as one in each size band of what no host has a part in. Versions of NCCL differ
by 3 to 4 % at the median there (`python -m armillary_lab.fit.one_node`)."""
_SHAKES = 4
"""Searches that begin near the best one so far."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "network latencies": _LATENCIES,
    "network latencies of LL128 and Simple": tuple(k for k in _LATENCIES if "[0]" not in k),
    "network rates": _RATES,
    "network messages": ("network.peer_latency", "network.step_interval"),
    "node latencies": tuple(f"node.step_latency[{at}]" for at in range(3)),
}
"""Departures that several parameters share: all are slower by one factor."""

OPTIONAL = (
    "node.ramp_up",
    "node.ll_peer.latency",
    "node.ll_peer.efficiency",
    "nvls.ramp_latency",
    "network.scale_loss",
    "network.tree_efficiency",
    "network.two_node_tree_efficiency",
    "network.step_interval",
)
"""Parameters that a preset may lack."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a sweep or a preset stands."""

    gpu: str
    preset: str
    several: bool
    """More than one node."""
    host: str = ""
    """Who starts calls; empty where the host is never what a call waits for."""

    @property
    def library(self) -> str:
        """NCCL or RCCL."""
        return "RCCL" if self.gpu.startswith("MI") else "NCCL"

    @property
    def cluster(self) -> str:
        """The preset without what names its setup."""
        return "polaris-a100-540n" if self.preset.startswith("polaris") else self.preset

    @property
    def network(self) -> str:
        """Kind of network."""
        return network(self.cluster)

    def place(self, sweep: MeasuredSweep, known: str) -> Place:
        """Where a sweep was measured, as intervals know it."""
        dims = sweep.platform.describe()["fabric"].get("dims", [])
        nodes = math.prod(dim["size"] for dim in dims[1:])
        return Place(self.gpu, self.cluster, nodes, known)

    def chain(self, key: str) -> tuple[Member, ...]:
        """The levels of a parameter."""
        found = tuple(self._chain(key))
        gpus = generation(self.gpu)
        if key in _RATES:
            return (*found[:2], ("path", f"{self.network}, {gpus}"), *found[2:])
        if key == _TREE_OF_TWO:
            said = ((_STATED, gpus),) if gpus in STATED_TREES else ()
            return (*said, found[0], ("generation", gpus), *found[2:])
        if key == _INTERVAL:
            return found[1:]
        known = [each for each in (self.preset, self.network) if each in STATED_LATENCY]
        if known and key in _LATENCIES:
            return ((_STATED, known[0]), *found[1:])
        return found

    def _chain(self, key: str) -> Iterator[Member]:
        yield "all", "all"
        room = key.partition(".")[0]
        polaris = self.preset.startswith("polaris")
        if room != "network":
            yield "library", self.library
            yield "generation", generation(self.gpu)
        if room in ("node", "nvls"):
            if self.gpu in RACKS and (room == "nvls" or key in LIKE):
                yield "node", "NVL72"
            if polaris:
                yield "node", "Polaris"
            return
        if room == "network" or self.several:
            yield "network", self.network
            yield "cluster", self.cluster
            if polaris:
                yield "setup", self.preset
        if room == "call_overhead" and self.host:
            yield HOST, self.host


def machine(sweep: MeasuredSweep) -> Machine:
    """The machine of a sweep. Racks that share a switch are one node."""
    several = len(sweep.platform.describe()["fabric"].get("dims", [0])) > 1
    of_a_host = f"{source(sweep)} {sweep.preset} {'several' if several else 'one'}"
    host = "" if sweep.source == one_node.SOURCE else of_a_host
    return Machine(sweep.gpu, sweep.preset, several, host)


def source(sweep: MeasuredSweep) -> str:
    """The repository or page that a sweep was published in."""
    return sweep.repository


def keys(platform: Platform) -> list[str]:
    """The parameters of a platform's library that are fitted."""
    found = {key.removeprefix("library.") for key in parameters(platform)}
    rooms = {key.partition(".")[0] for key in found}
    optional = {key for key in OPTIONAL if key.partition(".")[0] in rooms}
    return [key for key in PRIORS if key in found | optional]


def unit(key: str) -> str:
    """The unit of a parameter: us, or nothing for a part."""
    return "us" if any(word in key for word in ("latency", "interval", "overhead")) else ""


def observed(sweep: MeasuredSweep) -> Observed:
    """A sweep with its levels. The values of its preset take no part; what is stated of the sweep
    itself is not fitted."""
    where, platform = machine(sweep), sweep.platform
    own = {key for key, _ in sweep.settings}
    had = parameters(platform)
    rest = LIKE.values() if sweep.gpus > _host(platform) else LIKE
    wanted = [key for key in keys(platform) if f"library.{key}" not in own and key not in rest]
    missing = {
        f"library.{key}": f"{PRIORS[key].centre} {unit(key)}".strip()
        for key in wanted
        if f"library.{key}" not in had
    }
    table = MeasuredTable(sweep.name, sweep.collective, sweep.gpus, sweep.points)
    return Observed(
        Case(table, platform.changed(missing) if missing else platform),
        source(sweep),
        sweep.preset,
        {key: where.chain(key) for key in wanted if where.several or "network" not in key},
        tuple(band(size) for size, _ in sweep.points),
        OF_ONE_NODE if sweep.source == one_node.SOURCE else SCALES,
    )


def _host(platform: Platform) -> float:
    """The GPUs of a host, if several hosts share a switch."""
    hosts = platform.describe()["library"]["node"]["hosts"]
    return float(hosts["ranks"]) if hosts else math.inf


def fitted(chosen: Iterable[Observed]) -> Levels:
    """A fit to these sweeps: the best of several searches."""
    every = tuple(chosen)
    return _shaken(every, _levels(every).search()).divide()


def within_nodes(measured: Iterable[MeasuredSweep], left: str = "") -> Levels:
    """A fit of what concerns one node alone, to these sweeps and to what others measured of NCCL on
    nodes with a switch, but not on the GPU `left`: one search, for scores that leave something
    out."""
    printed = [each for each in sweeps() if each.fair and each.collective != SEND]
    every = [
        observed(each)
        for each in (*printed, *measured)
        if machine(each).library == "NCCL"
        and not machine(each).several
        and each.gpu not in ("V100", left)
    ]
    return _levels(every).search().divide()


def _shaken(every: Sequence[Observed], best: Levels) -> Levels:
    """The best of a search and of several that begin near the best one so far."""
    for at in range(_SHAKES):
        other = _levels(every).begin(best.shaken(at)).search(near=True)
        best = min(best, other, key=lambda each: each.least)
    return best


def _levels(chosen: Sequence[Observed]) -> Levels:
    return Levels(chosen, PRIORS, SPREADS, GROUPS, LIKE, stated())


def chosen() -> Sequence[MeasuredSweep]:
    """The sweeps that are fitted: collectives whose times were printed, and those of one node."""
    printed = [each for each in sweeps() if each.fair and each.collective != SEND]
    return [*printed, *one_node.one_node_sweeps()]


_SAY = 0.2
"""Part of the sweeps behind a departure that a source may have and the departure still begin at the
value of the fit to all."""
_MOVING = 0.05
"""Part that it must have for the departure to be fitted again."""


def without(full: Levels, left: str) -> Levels:
    """The fit to all sweeps but those of a source. It begins at the fit to all, without every
    departure that the source had a fifth of a say in, and moves all that it had a twentieth of a
    say in. If the source has a fifth of all sweeps, the others are searched as all are."""
    kept = [each for each in full.observed if each.source != left]
    begin = {
        variable: value
        for variable, value in full.departures.items()
        if full.say(variable, left) < _SAY
    }
    best = _levels(kept).begin(begin).search(near=True, moving=full.touched(left, _MOVING))
    if len(full.observed) - len(kept) > _SAY * len(full.observed):
        best = min(best, _levels(kept).search(), key=lambda each: each.least)
        best = _shaken(kept, best)
    return best.divide()


def known(where: Machine, others: Iterable[Machine]) -> str:
    """How well a machine is known from others: the same preset, the same kind, or neither."""
    there = list(others)
    if any(each.preset == where.preset for each in there):
        return MACHINE
    if where.several:
        alike = any(each.several and each.network == where.network for each in there)
    else:
        alike = any(generation(each.gpu) == generation(where.gpu) for each in there)
    return KIND if alike else NEITHER


def residuals(full: Levels, left: str) -> list[Residual]:
    """Residuals of a source for the fit without it, by sweep and size band."""
    levels = without(full, left)
    others = [machine(each) for each in chosen() if source(each) != left]
    found = []
    for sweep in chosen():
        if source(sweep) != left:
            continue
        where = machine(sweep)
        logs: dict[int, list[float]] = {}
        for (size, _), log in zip(sweep.points, levels.logs(observed(sweep)), strict=True):
            logs.setdefault(size_of_band(size), []).append(log)
        for size, each in logs.items():
            names = where.place(sweep, known(where, others)).labels(sweep.collective, size)
            rounded = tuple(round(log, DIGITS) for log in each)
            found.append(Residual(sweep.name, left, names, rounded))
    return found


def size_of_band(size: int) -> int:
    """The smallest size of the band that a size is in."""
    return (0, SMALL + 1, LARGE)[band(size)]
