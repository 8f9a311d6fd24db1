"""The preset that stands for a machine, from what a row says of it.

Rules look at the GPU, the nodes, the network cards and the name of the system. No rule names a
single measurement. What a machine is known by that has no model is a reason to leave it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from armillary.kernels.tables import Left

from .file import Row, source

Settings = dict[str, object]


@dataclass(frozen=True, slots=True)
class Machine:
    """A preset and what to override."""

    gpu: str
    """GPU generation, as tables name it."""
    preset: str
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Family:
    """The presets of a GPU generation."""

    one: str | None
    """One node."""
    many: str | None
    """Several nodes."""
    link: float
    """GB/s in one direction of all links of a GPU in its node together, as data sheets have it."""
    per_node: int = 8
    """GPUs in a node of the preset."""
    node: str = "Switch"
    """Block of a node."""
    most: int = 8
    """GPUs of the largest node."""
    rack: int = 0
    """GPUs in a domain of several trays that one switch connects."""


_FAMILIES: Mapping[str, _Family] = {
    "V100": _Family("dgx1-v100", None, 150),
    "V100 DGX-2": _Family("dgx2h", "dgx2h-16n", 150, per_node=16, most=16),
    "A100": _Family("dgx-a100", "dgx-a100-16n", 300),
    "H100": _Family("dgx-h100", "dgx-h100-16n", 450),
    "H200": _Family("hgx-h200", "hgx-h200-16n", 450),
    "GH200": _Family("alps-16n", "alps-16n", 450, per_node=4, node="FullyConnected", most=4),
    "B200": _Family("dgx-b200", "dgx-b200-16n", 900),
    "B300": _Family("dgx-b200", "dgx-b200-16n", 900),
    "GB200": _Family("gb200-nvl72", "gb200-nvl72-8r", 900, per_node=72, most=72, rack=72),
    "GB300": _Family("gb300-nvl72", "gb300-nvl72-8r", 900, per_node=72, most=72, rack=72),
    "MI300X": _Family("mi300x-8", "mi300x-16n", 448, node="FullyConnected"),
    "MI325X": _Family("mi300x-8", "mi300x-16n", 448, node="FullyConnected"),
    "MI350X": _Family("mi355x-8", "mi355x-16n", 535.5, node="FullyConnected"),
    "MI355X": _Family("mi355x-8", "mi355x-16n", 535.5, node="FullyConnected"),
}
"""B300, MI325X and MI350X take the preset of another generation with the same links. One node of
GH200 is the first of several. H20 and H800 are not here: how their kernels differ is not published.
"""

_GPUS = re.compile(r"GB300|GB200|GH200|B300|B200|H200|H100|A100|V100|MI3[025]+[0-9]?X", re.I)

_SITES: tuple[tuple[str, str, str | None, str | None], ...] = (
    # system or fabric, GPU, preset of one node, preset of several
    (r"Perlmutter", "A100", None, "perlmutter-1536n"),
    (r"Polaris|Sirius|Slingshot", "A100", "polaris-a100", "polaris-a100-540n"),
    (r"CoreWeave", "A100", None, "coreweave-a100-16n"),
    (r"\bEFA|p4de?\b", "A100", None, "p4d-16n"),
    (r"Kestrel|Slingshot", "H100", None, "kestrel-132n"),
    (r"a3-?mega|A3 Mega|TCPXO|FasTrak", "H100", None, "a3mega-16n"),
    (r"a3-?(high|edge)|A3 (High|Edge)|TCPX", "H100", None, "a3high-16n"),
    (r"\bEFA|p5\b", "H100", None, "p5-16n"),
    (r"Azure ND", "H100", "nd-h100-v5", None),
    (r"p6-b200", "B200", "p6-b200", "p6-b200-16n"),
    (r"\bEFA|p6-b300", "B[23]00", None, "p6-b200-16n"),
    (r"\bEFA|p5en", "H200", None, "p5-16n"),
)

_INFERRED: tuple[tuple[str, str, Settings], ...] = (
    # system, GPU, values read off its sweeps because its source does not state them; Azure's guide
    # starts one process for 8 GPUs (Azure/AI-benchmarking-guide@547b3e73 NCCLBandwidth.py)
    (r"Azure ND", "H100", {"library.min_call_interval": "32 us"}),
    (r"Azure ND", "H200", {"library.min_call_interval": "32 us"}),
)

_UNMODELLED: tuple[tuple[str, str], ...] = (
    (
        r"COLLNET_ENABLE=1 \(SHARP|\+ SHARP|rdma-sharp",
        "reductions in the switches of the network (SHARP)",
    ),
    (r"TCP fallback|no CXI|plugin\W+none \(TCP\)", "a network over TCP by mistake"),
    (r"mscclpp|ctran|MCCL|IBGDA", "a library other than NCCL and RCCL"),
    (r"IB_ONLY|NVLink/SHM disab", "links inside the node switched off"),
    (r"NCCL_ALGO=(Tree|NVLSTree|CollNet)", "an algorithm that a preset can't be forced to use"),
    (r"negative control|_slow\b", "a negative control of its source"),
    (r"different PCIe? roots?", "GPU and network card on different PCI roots"),
    (r"NCCL custom all-reduce|symmetric memory", "NCCL's kernels for symmetric memory"),
    (r"aws-ofi-nccl v1\.[0-7]\b", "an older version of Amazon's plugin than any preset describes"),
)

_CALLERS: tuple[tuple[str, str], ...] = (
    # words of a row, who makes the calls; letters don't continue on either side
    (r"jax|xla|psum|shard_map|maxtext", "JAX"),
    (r"gloo", "Gloo"),
    (r"mpi[_ ]?(all|reduce|bcast|send|recv)\w*|osu|mvapich2?|(cuda|gpu|rocm)-aware mpi", "MPI"),
    (r"oneccl|hccl|ucc|tccl", "a library of another vendor"),
)
"""Calls that are not NCCL's or RCCL's own: what they add to them is not known."""
_BARRIER = "barrier-aligned"
"""Calls of torchcomms whose start is known (`SINGLE_US`)."""


def _caller(said: str, library: object) -> str | None:
    """Reason to leave out a sweep whose calls are not NCCL's or RCCL's own."""
    for words, name in _CALLERS:
        if re.search(rf"(?<![a-z])({words})(?![a-z])", said, re.I):
            return f"calls of {name}: not NCCL's or RCCL's own"
    if library and not re.match(r"[NR]CCL\b", str(library)):
        return "a library other than NCCL and RCCL"
    if re.search(r"torchcomms", said, re.I) and _BARRIER not in said:
        return "calls of torchcomms: not NCCL's or RCCL's own"
    return None


_CARDS = re.compile(r"PCI|RTX|\bNVL\b|\bL(4|20|40S?)\b", re.I)
"""GPUs on cards, also the NVL models with their bridges. `NVL72` is a rack."""


def gpu_of(text: str) -> str | None:
    """GPU generation of a description; `None` for one without a preset."""
    found = _GPUS.search(text)
    name = found[0].upper() if found and not _CARDS.search(text) else None
    return name if name in _FAMILIES else None


def one_node(gpu: str) -> str:
    """The preset of one node of a generation."""
    one = _FAMILIES[gpu].one
    assert one is not None
    return one


def link(gpu: str) -> float:
    """GB/s in one direction of all links of a GPU of a generation in its node together."""
    return _FAMILIES[gpu].link


def no_preset(text: str | None) -> str:
    """Why a GPU has none."""
    if not text:
        return "the GPU is not stated"
    if _CARDS.search(text):
        return "GPUs on PCIe: there is no model of its host bridges"
    return f"no preset for {text}"


_SOFTWARE = ("nccl", "rccl", "rocm", "library", "plugin", "algo", "tests", "env")
"""Fields of a row that name its software."""


def of_sweep(row: Row) -> Machine | Left:
    """The machine of a sweep of collectives, or why there is none."""
    hardware, software = row["hardware"], row.get("software") or {}
    said = " ".join(
        str(each)
        for each in (
            hardware.get("gpu"),
            hardware.get("intra_node"),
            hardware.get("system"),
            hardware.get("fabric"),
            hardware.get("nic"),
            *(software.get(key) for key in _SOFTWARE),
            row["id"],
            *_said_in_notes(str(row.get("notes"))),
        )
    )
    caller = _caller(f"{said} {source(row)} {row.get('notes')}", software.get("library"))
    if reason := _reason(row, said) or caller:
        return Left(reason)
    gpu = gpu_of(str(hardware.get("gpu")))
    counts = (hardware.get("gpus"), hardware.get("nodes"), hardware.get("gpus_per_node"))
    if reason := _lacks(gpu, counts, hardware):
        return Left(reason)
    assert gpu is not None
    found = machine(gpu, *counts, hardware=hardware, software=software)
    if isinstance(found, Left):
        return found
    return Machine(found.gpu, found.preset, found.settings | _library(found.gpu, said))


def _lacks(gpu: str | None, counts: tuple[Any, ...], hardware: Mapping[str, Any]) -> str | None:
    """Property that a machine lacks to be a preset: its GPU, its size, or its network."""
    if re.match(r"PCI", str(hardware.get("intra_node"))):
        return no_preset("PCIe")
    if gpu is None:
        return no_preset(hardware.get("gpu"))
    if not all(isinstance(each, int) and each > 0 for each in counts):
        return "the number of GPUs or nodes is not stated"
    if counts[0] == 1:
        return "one GPU: it sends nothing"
    if counts[0] > _FAMILIES[gpu].rack and _of_any_network(hardware):
        return "neither the kind nor the rate of its network is stated"
    return None


def _reason(row: Row, said: str) -> str | None:
    """Why a sweep can't be predicted on any preset."""
    for pattern, reason in _UNMODELLED:
        if re.search(pattern, said):
            return reason
    if _below_its_bar(row):
        return "far below the bandwidth that its own source asks for"
    return None


def _said_in_notes(notes: str) -> list[str]:
    """Parts of the notes that say what is wrong with a machine."""
    return re.findall(r"negative control|different PCIe? roots?", notes)


_BAR = 0.25
"""Part of a stated bar below which a measurement is one of a misconfigured machine."""


def _below_its_bar(row: Row) -> bool:
    """Whether the source states the bandwidth that a working machine has, and this one is far below
    it."""
    bar = re.search(r"pass bar of ([\d.]+) GB/s", str(row.get("notes")))
    if bar is None:
        return False
    rates = [point.get(key) or 0.0 for point in row["points"] for key in ("ip_busbw", "oop_busbw")]
    return max(rates, default=0.0) < _BAR * float(bar[1])


_SAYS_NOTHING = ("", "unknown", "not stated", "not printed", "n/a")


def _of_any_network(hardware: Mapping[str, Any]) -> bool:
    """Whether the network between the nodes may be any."""
    nodes, system = hardware.get("nodes"), str(hardware.get("system"))
    if not isinstance(nodes, int) or nodes == 1 or hardware.get("nic_Gbps"):
        return False
    said = [str(hardware.get(key) or "").lower() for key in ("nic", "fabric")]
    known = any(re.search(pattern, system) for pattern, *_ in _SITES)
    return not known and all(each in _SAYS_NOTHING for each in said)


def machine(
    gpu: str,
    gpus: int,
    nodes: int,
    per_node: int,
    *,
    hardware: Mapping[str, Any],
    software: Mapping[str, Any] | None = None,
) -> Machine | Left:
    """The machine with this many GPUs of a generation, `per_node` of each node in use."""
    system = " ".join(str(hardware.get(key) or "") for key in ("system", "fabric", "nic"))
    system += " " + str((software or {}).get("plugin", ""))
    if gpu == "V100" and (per_node > 8 or "DGX-2" in system):
        gpu = "V100 DGX-2"
    family, name = _FAMILIES[gpu], gpu.partition(" ")[0]
    if per_node > family.most:
        return Left(f"{per_node} {name} in a node: the largest preset has {family.most}")
    if nodes > 1 and gpus != nodes * per_node:
        return Left("GPUs are not spread evenly over the nodes")
    if family.rack:
        return _racks(name, family, gpus, per_node, hardware)
    family = _of_site(gpu, family, system, software or {})
    more: Settings = {}
    for pattern, which, settings in _INFERRED:
        if which == gpu and re.search(pattern, system):
            more |= settings
    preset = family.one if nodes == 1 else family.many
    if preset is None:
        return Left(f"no preset for {'one node' if nodes == 1 else 'several nodes'} of {name}")
    if nodes == 1 and preset != family.many:
        return Machine(name, preset, {"npus": gpus} | _inside(more))
    found: Settings = {"npus": gpus}
    if per_node != family.per_node or nodes == 1:
        found["topology"] = f"{family.node}({per_node})_Switch({nodes})"
    return Machine(name, preset, found | _cards(hardware, per_node) | more)


def _of_site(gpu: str, family: _Family, system: str, software: Mapping[str, Any]) -> _Family:
    """The presets of a generation at the site that a system is at."""
    for pattern, which, single, several in _SITES:
        if re.fullmatch(which, gpu) and re.search(pattern, system):
            family = replace(family, one=single or family.one, many=several or family.many)
            break
    if family.many == "polaris-a100-540n":
        name = _polaris(software)
        return replace(family, many=name, per_node=4, node="FullyConnected", most=4)
    if family.many in ("kestrel-132n", "perlmutter-1536n"):
        return replace(family, per_node=4, node="FullyConnected")
    return family


def _racks(
    name: str, family: _Family, gpus: int, per_node: int, hardware: Mapping[str, Any]
) -> Machine:
    """GPUs of the fewest equal racks that hold them."""
    racks = -(-gpus // family.rack)
    while gpus % racks:
        racks += 1
    if racks == 1:
        assert family.one is not None
        return Machine(name, family.one, {"npus": gpus})
    assert family.many is not None
    settings: Settings = {"topology": f"Switch({gpus // racks})_Switch({racks})", "npus": gpus}
    return Machine(name, family.many, settings | _cards(hardware, per_node))


def _inside(settings: Settings) -> Settings:
    """Settings that make sense within one node."""
    return {
        key: value
        for key, value in settings.items()
        if "links[1]" not in key and "network" not in key
    }


def _cards(hardware: Mapping[str, Any], per_node: int) -> Settings:
    """Share of a GPU in the cards of its node, if they are stated."""
    cards, rate = hardware.get("nics_per_node"), hardware.get("nic_Gbps")
    if not cards or not rate:
        return {}
    return {"links[1].bandwidth": f"{float(cards) * float(rate) / per_node:g} Gb/s"}


def _polaris(software: Mapping[str, Any]) -> str:
    """The preset for a version of NCCL and a set of libfabric's options."""
    name = "polaris-a100-540n"
    if "2.18" in str(software.get("nccl")):
        name += "-nccl2.18"
    return name + ("-env5" if re.search(r"setup \(5\)|RX_MATCH", str(software.get("env"))) else "")


LAUNCH_US = 4
"""Time that a process needs to start a call on each of its GPUs, us: small collectives of one
process with 8 GPUs take 26 to 43 us on A100, H100, H200, B300, MI350X and MI355X, by five sources,
and 32 at the median. One process for each GPU takes half of that and less."""
KERNEL_US = 6.6
"""Time of a call without its host, us: by a graph, or in times of kernels. It is the latency that
NCCL counts for a ring with LL before its steps (NVIDIA/nccl@5067397c src/graph/tuning.cc,
`baseLat`)."""
SINGLE_US = 34
"""Time of a single call after a barrier, with its start in full, us: the shortest time of the
kernels of the same page (meta-pytorch/torchcomms@731898b5 comms/rcclx/develop/meta/relay/perf_data/
bench_sharded_relay_single_group_bf16_sweep_results.txt, column "Relay")."""
_ONE_PROCESS = re.compile(r"-g ([2-9]|1[0-9])\b|\bone process|single-process")


def _processes(said: str) -> Settings:
    """The gap between calls, where one process starts those of a node's GPUs in turn."""
    found = _ONE_PROCESS.search(said)
    if found is None:
        return {}
    gpus = int(found[1] or _PROCESS_GPUS)
    return {"library.min_call_interval": f"{LAUNCH_US * gpus} us"}


_PROCESS_GPUS = 8
"""GPUs of a process where a source says only that it was one."""


def _library(gpu: str, said: str) -> Settings:
    """Settings of the library that a row states."""
    found: Settings = _processes(said)
    has_nvls = gpu in ("H100", "H200", "B200", "B300", "GB200", "GB300")
    if has_nvls and re.search(r"NVLS_ENABLE=0|Ring \(forced\)|NCCL_ALGO=Ring|NVLS off", said):
        found["library.nvls"] = None
    if re.search(r"graph launch|-G 1\b|excludes launch", said):
        found |= {"library.min_call_interval": "0 us", "library.call_overhead": f"{KERNEL_US} us"}
    if _BARRIER in said:
        found["library.call_overhead"] = f"{SINGLE_US} us"
    return found
