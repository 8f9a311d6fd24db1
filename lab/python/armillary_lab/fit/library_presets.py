"""Fits the libraries of all presets to all measured sweeps, level by level, and writes the values
into the presets. It also writes the residuals of left-out sources.

    python -m armillary_lab.fit.library_presets            # fits, and prints the departures of each
    level python -m armillary_lab.fit.library_presets --write    # writes systems/ and the page of
    parameters as well python -m armillary_lab.fit.library_presets --check    # ends with 1 if the
    page of parameters differs python -m armillary_lab.fit.library_presets --residuals   # writes
    the residuals of left-out sources

The method is in `hierarchy.py`, the levels in `libraries.py`. The fit
takes about two minutes, the residuals about ten."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from armillary.uncertainty import calibrated, write
from armillary.uncertainty.collectives import LIKENESS

from ..clone import ROOT, demand
from . import libraries
from .hierarchy import HOST, Levels
from .libraries import LIKE, PRIORS, RACKS, Machine

SYSTEMS = ROOT / "systems"


@dataclass(frozen=True)
class File:
    """A file with part of a library: whose values it holds, and which it inherits."""

    path: str
    machine: Machine
    rooms: tuple[str, ...]
    inherits: Machine | None = None
    network: str = ""
    """The part with the values of its kind of network."""


def _node(path: str, gpu: str, *rooms: str, inherits: Machine | None = None) -> File:
    return File(f"parts/library/{path}.yml", Machine(gpu, "", False), rooms, inherits)


def _kind(path: str, gpu: str, preset: str) -> File:
    return File(f"parts/library/network/{path}.yml", Machine(gpu, preset, True), ("network",))


KINDS = {
    "RDMA": _kind("rdma", "H100", "of this kind"),
    "RDMA, RCCL": _kind("rdma-rccl", "MI300X", "mi300x-16n"),
    "EFA": _kind("efa", "H100", "p5-16n"),
    "TCP": _kind("tcp", "H100", "a3mega-16n"),
    "Slingshot": _kind("slingshot", "A100", "polaris-a100-540n"),
}
KIND_LEVELS = ("all", "stated", "network")
BLACKWELL = Machine("B200", "", False)
CDNA3 = Machine("MI300X", "", False)
PARTS = [
    _node("nccl-v100", "V100", "call_overhead", "node"),
    _node("nccl-a100", "A100", "call_overhead", "node"),
    _node("nccl-hopper", "H100", "call_overhead", "node"),
    _node("nvls-hopper", "H100", "nvls"),
    _node("nccl-b200", "B200", "call_overhead", "node", "nvls"),
    _node("nccl-nvl72", "GB200", "node", "nvls", inherits=BLACKWELL),
    _node("rccl-cdna3", "MI300X", "call_overhead", "node"),
    _node("rccl-cdna4", "MI355X", "call_overhead", "node", inherits=CDNA3),
]
H100 = Machine("H100", "dgx-h100-16n", True)
POLARIS = Machine("A100", "polaris-a100-540n", True)
ALL = ("call_overhead", "node", "network")
CLUSTERS = [
    File(f"{folder}/{name}.yml", Machine(gpu, name, True), ALL, inherits)
    for folder, name, gpu, inherits in (
        ("nvidia", "dgx2h-16n", "V100", None),
        ("nvidia", "dgx-a100-16n", "A100", None),
        ("nvidia", "dgx-h100-16n", "H100", None),
        ("nvidia", "hgx-h200-16n", "H200", H100),
        ("nvidia", "dgx-b200-16n", "B200", None),
        ("nvidia", "gb200-nvl72-8r", "GB200", None),
        ("nvidia", "gb300-nvl72-8r", "GB300", None),
        ("amd", "mi300x-16n", "MI300X", None),
        ("amd", "mi355x-16n", "MI355X", None),
        ("cloud", "p4d-16n", "A100", None),
        ("cloud", "p5-16n", "H100", None),
        ("cloud", "a3mega-16n", "H100", None),
        ("cloud", "a3high-16n", "H100", None),
        ("cloud", "coreweave-a100-16n", "A100", None),
        ("sites", "alps-16n", "GH200", None),
        ("sites", "kestrel-132n", "H100", None),
        ("sites", "perlmutter-1536n", "A100", None),
        ("sites", "polaris-a100-540n", "A100", None),
        ("sites", "polaris-a100-540n-nccl2.18", "A100", POLARIS),
        ("sites", "polaris-a100-540n-env5", "A100", POLARIS),
        ("sites", "polaris-a100-540n-nccl2.18-env5", "A100", POLARIS),
    )
]
WITHOUT_INLINE = frozenset(each.machine.preset for each in CLUSTERS) - {
    each.machine.preset for each in CLUSTERS if each.machine.preset.startswith("polaris")
}


PAGE = ROOT / "docs/reference/library-parameters.md"
MARK = "<!-- levels -->\n", "<!-- levels end -->"
BEFORE: dict[str, int] = {"one node": 18, "generation": 69, "cluster": 194, "setup": 42}
"""Numbers of the same parameters in the presets when each file was fitted on its own."""


def main(arguments: list[str]) -> int:
    """Fits, prints and writes."""
    demand(PAGE)
    full = libraries.fitted(map(libraries.observed, libraries.chosen()))
    lines = [*counts(full), "", *departures(full)]
    sys.stdout.write(f"lowest sum: {full.least:.1f}\n" + "\n".join(lines) + "\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK[0])
    inside, _, after = rest.partition(MARK[1])
    today = "\n".join(lines) + "\n"
    if "--check" in arguments:
        different = difflib.unified_diff(inside.splitlines(), today.splitlines(), lineterm="")
        sys.stdout.writelines(f"{line}\n" for line in different)
        return int(inside != today)
    if "--write" in arguments:
        for file in [*PARTS, *KINDS.values(), *CLUSTERS]:
            save(full, file)
        PAGE.write_text(before + MARK[0] + today + MARK[1] + after, encoding="utf-8")
    if "--residuals" in arguments:
        sources = dict.fromkeys(map(libraries.source, libraries.chosen()))
        found = [each for source in sources for each in libraries.residuals(full, source)]
        target = ROOT / "python/armillary/uncertainty/data/collectives.json"
        write(calibrated(found, LIKENESS), target)
    return 0


def counts(full: Levels) -> Iterator[str]:
    """Fitted numbers by level, and how many measured points constrain each."""
    free = [each for each in full.departures if each not in full.parts]
    by = Counter(variable[0] for variable in free)
    yield "| level | before | now | measured points that constrain each: least, middle, most |"
    yield "| --- | --- | --- | --- |"
    for level in dict.fromkeys([*libraries.SPREADS, *BEFORE]):
        points = sorted(full.measurements(each) for each in free if each[0] == level)
        spread = f"{points[0]}, {points[len(points) // 2]}, {points[-1]}" if points else ""
        if level != HOST and (level in BEFORE or points):
            yield f"| {level} | {BEFORE.get(level, 0)} | {by[level]} | {spread} |"
    of_presets = sum(count for level, count in by.items() if level != HOST)
    yield f"| all of these | {sum(BEFORE.values())} | {of_presets} | |"
    yield f"| hosts (in no preset) | 0 | {by[HOST]} | |"


def departures(full: Levels) -> Iterator[str]:
    """Each departure as the factor on the value of the level above."""
    yield "| level | member | parameter | factor | measured points |"
    yield "| --- | --- | --- | --- | --- |"
    order = list(libraries.SPREADS)
    for variable in sorted(full.departures, key=lambda each: (order.index(each[0]), *each[1:])):
        level, member, name = variable
        factor = math.exp(full.departures[variable])
        what = f"`{name}`" if name in PRIORS else name
        of = full.parts.get(variable)
        points = full.measurements(variable)
        said = f"{points}" if of is None else f"part of {of[0]}, {of[1]}"
        yield f"| {level} | {member} | {what} | {factor:.2f} | {said} |"


def values(full: Levels, machine: Machine, rooms: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a machine as a file has them."""
    found = {}
    for key in PRIORS:
        if key.partition(".")[0] not in rooms:
            continue
        if "inline" in key and machine.network != "Slingshot":
            continue
        if key in LIKE and machine.gpu not in RACKS:
            continue
        value = f"{full.value(key, machine.chain(key)):.3g}"
        found[key] = f"{value} {libraries.unit(key)}".strip()
    return found


def kind(full: Levels, machine: Machine) -> dict[str, str]:
    """The parameters of a machine's kind of network."""
    found = {}
    for key in PRIORS:
        if key.startswith("network") and not ("inline" in key and machine.network != "Slingshot"):
            chain = [each for each in machine.chain(key) if each[0] in KIND_LEVELS]
            found[key] = f"{full.value(key, chain):.3g} {libraries.unit(key)}".strip()
    return found


def save(full: Levels, file: File) -> None:
    """Writes the block `library` of a file again; what is not fitted stays."""
    path = SYSTEMS / file.path
    is_kind = file in KINDS.values()
    ours = kind(full, file.machine) if is_kind else values(full, file.machine, file.rooms)
    inherited: dict[str, str] = {}
    if file in CLUSTERS:
        machine = file.machine
        inherited = values(full, Machine(machine.gpu, "", False), ("call_overhead", "node"))
        inherited |= kind(full, KINDS[machine.network].machine)
    if file.inherits is not None:
        inherited |= values(full, file.inherits, file.rooms)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    given = (yaml.safe_load(text) or {}).get("library") or {}
    block = "\n".join(_block(_differing(ours, inherited), given))
    body = _without_block(text or f"# Networks of one kind: {file.machine.network}.\n")
    if file in CLUSTERS:
        body = _extended(body, f"../{KINDS[file.machine.network].path}", file)
    where = body.find("measured:")
    head, tail = (body[:where], body[where:]) if where >= 0 else (body, "")
    note = NOTE if file in CLUSTERS else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = f"{note}{block}\n" if block != "library:" else ""
    path.write_text(f"{head}{body}{tail}", encoding="utf-8")


NOTE = (
    "# What differs from this generation of GPUs and this kind of network, as far as measurements "
    "require: docs/models/libraries.md#levels.\n"
)


def _differing(ours: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """Values that are not inherited; lists as a whole."""
    different = {key.partition("[")[0] for key in ours if ours[key] != inherited.get(key)}
    return {key: value for key, value in ours.items() if key.partition("[")[0] in different}


_FITTED = {key.partition("[")[0] for key in PRIORS}
_NESTED = ("inline", "hosts", "ll_peer")
TRAY = 4
"""GPUs of a host of a rack."""
_KEEP = ("name", "p2p_overhead", "min_call_interval")


def _block(found: Mapping[str, str], given: Mapping[str, object]) -> Iterator[str]:
    """The lines of a library: fitted values, and what the file had that is not fitted."""
    yield "library:"
    if "name" in given:
        yield f"  name: {given['name']}"
    if "call_overhead" in found:
        yield f"  call_overhead: {found['call_overhead']}"
    for key in _KEEP[1:]:
        if key in given:
            yield f"  {key}: {given[key]}"
    for room in ("node", "network"):
        lines = list(_room(room, found, given.get(room) or {}))
        if lines:
            yield f"  {room}:"
            yield from lines
    nvls = {key.removeprefix("nvls."): value for key, value in found.items() if "nvls" in key}
    if nvls:
        yield f"  nvls: {{{', '.join(f'{k}: {v}' for k, v in nvls.items())}, min_ranks: 5}}"


def _room(room: str, found: Mapping[str, str], given: object) -> Iterator[str]:
    lists: dict[str, list[str]] = {}
    for key, value in found.items():
        name, bracket, _ = key.removeprefix(f"{room}.").partition("[")
        if not key.startswith(f"{room}.") or name.partition(".")[0] in _NESTED:
            continue
        if bracket:
            lists.setdefault(name, []).append(value)
        else:
            lists[name] = [value]
    for name, entries in lists.items():
        is_list = f"{room}.{name}[0]" in PRIORS
        yield f"    {name}: {'[' + ', '.join(entries) + ']' if is_list else entries[0]}"
    rings = [value for key, value in found.items() if key in LIKE and room == "node"]
    if rings:
        steps = ", ".join(rings[1:])
        yield f"    hosts: {{ranks: {TRAY}, efficiency: {rings[0]}, step_latency: [{steps}]}}"
    if "node.ll_peer.latency" in found and room == "node":
        latency, part = (found[f"node.ll_peer.{key}"] for key in ("latency", "efficiency"))
        yield f"    ll_peer: {{latency: {latency}, efficiency: {part}}}"
    if inline := found.get(f"{room}.inline.peer_latency"):
        yield f"    inline: {{threshold: 192 B, peer_latency: {inline}}}     # of the card"
    assert isinstance(given, dict)
    for name, value in given.items():
        if f"{room}.{name}" not in _FITTED and name not in _NESTED:
            said = f"     # {COMMENTS[name]}" if name in COMMENTS and value is not None else ""
            shown = f"[{', '.join(value)}]" if isinstance(value, list) else value
            yield f"    {name}: {'null' if value is None else shown}{said}"


COMMENTS = {
    "protocols": "NCCL: no LL128 where a card and a GPU share no PCIe switch",
    "pxn": "on by default since NCCL 2.12; its InfiniBand transport takes 8 messages at once",
    "p2p_bandwidth_max": "two channels of a send: docs/models/libraries.md",
    "host_bandwidth": "PCIe 3 x16, where direct links make no ring",
    "tree_bandwidth_max": "what two racks of GB200 reach (oracle-quickstart/oci-gpu-quickstarts)",
}


def _without_block(text: str) -> str:
    """A file without its library and the comment above it."""
    text = re.sub(r"^library:.*\n(?:[ #].*\n)*?(?=^\S|\Z)", "", text, flags=re.M)
    comment = r"^# (?:The library between|Steps |What differs from this generation).*\n"
    return re.sub(comment, "", text, flags=re.M)


def _extended(body: str, part: str, file: File) -> str:
    """The file, with the part of its kind of network among those it extends."""
    found = re.search(r"^extends: \[(.*)\]$", body, flags=re.M)
    if found is None or part in body or file.inherits is not None:
        return body
    return body.replace(found[0], f"extends: [{found[1]}, {part}]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
