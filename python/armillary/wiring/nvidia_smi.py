"""The matrix of `nvidia-smi topo -m`: how each two of the GPUs and network cards of a node are
joined.

`NV#` is that many NVLinks. `PIX` is one PCIe switch, `PXB` several, `PHB` a host bridge (CPU),
`NODE` several of one NUMA node, `SYS` the link between CPUs: its own legend says so. The matrix has
no speeds, so the GPU must be named. Where a GPU shows more NVLinks to others than it has, they pass
an NVSwitch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..units import counted
from .assumed import Assumed
from .gpus import C2C, GPUS, GRACE, Gpu
from .node import Link, Node, Port

HELP = "the output of nvidia-smi topo -m"
MOST_DEVICES = 256
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile(
    r"GPU\d+|NIC\d+|mlx\d+_\w+|bnxt_\w+|irdma\w+|rdma\w+|hfi\d+_\w+|efa_\w+|ib\w+\d+"
)
_LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
_NVLINK = re.compile(r"(NV|BONDED?|SHV)(\d{1,3})")


@dataclass
class _Matrix:
    """Devices by name, the line of each, and how each two are joined."""

    lines: dict[str, int] = field(default_factory=dict)
    joined: dict[tuple[str, str], str] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)
    """Names of network cards by what the matrix calls them (`NIC Legend`)."""

    def gpus(self) -> list[str]:
        return sorted((name for name in self.lines if name.startswith("GPU")), key=_number)

    def level(self, one: str, other: str) -> str:
        return self.joined.get((one, other)) or self.joined.get((other, one)) or "SYS"


def is_topo(text: str) -> bool:
    """Whether a text has the head of a matrix."""
    return any(_columns(line) for line in _plain(text).splitlines()[:200])


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The node that the matrix describes. Raises `InputError` listing every problem."""
    matrix = _matrix(text, file)
    gpu = assumed.product
    if gpu is None:
        message = "nvidia-smi topo -m does not say which GPU it is, so speeds are unknown"
        raise InputError([Problem(file, "", message, f"--gpu with one of {', '.join(GPUS)}")])
    node = Node("matrix of nvidia-smi topo -m", list(matrix.gpus()))
    _pcie(node, matrix, assumed, gpu)
    _nvlinks(node, _shown(matrix, file, assumed, gpu), assumed, gpu)
    far = [port.name for port in node.ports if not _is_near(matrix, port.name)]
    node.far = far if len(far) < len(node.ports) else []
    return node


def _plain(text: str) -> str:
    return _COLOURS.sub("", text)


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)


def _columns(line: str) -> list[str]:
    """The devices that the head of a matrix names; none for another line."""
    words = line.split()
    if not words or words[0] != "GPU0":
        return []
    found = []
    for word in words:
        if not _DEVICE.fullmatch(word):
            break
        found.append(word)
    return found if len(words) == len(found) or words[len(found)] in ("CPU", "NUMA") else []


def _matrix(text: str, file: str) -> _Matrix:
    matrix = _Matrix()
    problems: list[Problem] = []
    heads: list[str] = []
    for place, line in enumerate(_plain(text).splitlines(), 1):
        if not heads:
            heads = _columns(line)
            if len(heads) > MOST_DEVICES:
                message = f"{len(heads)} devices"
                raise InputError([Problem(file, f"line {place}", message, f"{MOST_DEVICES}")])
            continue
        words = line.split()
        if words and words[0] in heads and words[0] not in matrix.lines:
            problems += _row(matrix, heads, words, file, place)
        elif found := re.fullmatch(r"\s*(NIC\d+):\s*(\S+)\s*", line):
            matrix.cards[found[1]] = found[2]
    if not heads:
        raise InputError([Problem(file, "", "has no matrix", f"{HELP}, which begins with GPU0")])
    missing = [head for head in heads if head not in matrix.lines]
    if missing:
        problems.append(Problem(file, "", f"has no row of {missing[0]}", "a row for each column"))
    if problems:
        raise InputError(problems)
    return matrix


def _row(
    matrix: _Matrix, heads: list[str], words: list[str], file: str, place: int
) -> Iterator[Problem]:
    name, cells = words[0], words[1 : 1 + len(heads)]
    matrix.lines[name] = place
    if len(cells) < len(heads):
        message = f"{counted(len(cells), 'value')} for {counted(len(heads), 'column')}"
        yield Problem(file, f"line {place}: {name}", message, f"{len(heads)} values")
    for head, cell in zip(heads, cells, strict=False):
        if (cell == "X") != (head == name):
            yield Problem(file, f"line {place}: {name}", f"{cell!r} under {head}", "X for itself")
        elif cell != "X" and cell not in _LEVELS and not _NVLINK.fullmatch(cell):
            allowed = f"{', '.join(_LEVELS)}, NV and a number"
            yield Problem(file, f"line {place}: {name}", f"{cell[:20]!r} under {head}", allowed)
        else:
            matrix.joined[name, head] = cell


def _is_near(matrix: _Matrix, card: str) -> bool:
    names = {matrix.cards.get(name, name): name for name in matrix.lines}
    return any(matrix.level(names[card], gpu) in ("PIX", "PXB") for gpu in matrix.gpus())


def _pcie(node: Node, matrix: _Matrix, assumed: Assumed, gpu: Gpu) -> None:
    """PCIe switches and CPUs: who is together at a level shares what stands there."""
    tops = {name: name for name in matrix.lines}
    for levels, word, tier in (
        (("PIX",), "pcie", 1),
        (("PIX", "PXB"), "pcie-root", 1),
        (("PIX", "PXB", "PHB", "NODE"), "cpu", 2),
    ):
        groups = _together(matrix, levels)
        number = 0
        for group in groups:
            parts = sorted({tops[name] for name in group}, key=lambda top: group_order(top, matrix))
            if len(parts) < 2 and word != "cpu":
                continue
            name = f"{word}{number}"
            number += 1
            node.switches[name] = tier
            for part in parts:
                _join(node, part, name, assumed, gpu)
            tops.update(dict.fromkeys(group, name))
    cpus = [name for name in node.switches if name.startswith("cpu")]
    for i, one in enumerate(cpus):
        for other in cpus[:i]:
            speed, note = _between(assumed, gpu)
            link = Link(other, one, speed, assumed.latency("cpu"), "cpu", note.strip())
            node.links.append(link)
    for name in matrix.lines:
        if not name.startswith("GPU"):
            card = matrix.cards.get(name, name)
            node.switches[card] = 3
            node.ports.append(Port(card, *(part.strip() for part in assumed.card(gpu.capability))))
    named = matrix.cards
    node.links = [
        Link(named.get(a.a, a.a), named.get(a.b, a.b), a.bandwidth, a.latency, a.kind, a.note)
        for a in node.links
    ]


def group_order(name: str, matrix: _Matrix) -> tuple[int, str]:
    """Devices in the order of the matrix, then switches."""
    return matrix.lines.get(name, len(matrix.lines) + 10**6), name


def _between(assumed: Assumed, gpu: Gpu) -> tuple[str, str]:
    """Bandwidth between two CPUs, and a note. The matrix does not say which CPUs these are."""
    speed = C2C if gpu.grace else 10.0
    source = "the matrix does not say which CPU; NCCL's src/graph/topo.h: SKL_QPI_BW, a Skylake"
    return assumed.cpu(speed, GRACE if gpu.grace else source) or ("", "")


def _join(node: Node, part: str, name: str, assumed: Assumed, gpu: Gpu) -> None:
    """A device to a PCIe switch or a CPU; a GPU has NVLink-C2C to a CPU of its own package."""
    is_gpu = part.startswith("GPU")
    kind = "c2c" if gpu.c2c and is_gpu and name.startswith("cpu") else "pcie"
    lanes = gpu.lanes if is_gpu else 16
    speed, note = assumed.c2c(gpu) if kind == "c2c" else assumed.pcie(gpu.capability, lanes)
    node.links.append(Link(part, name, speed, assumed.latency(kind), kind, note.strip()))


def _together(matrix: _Matrix, levels: tuple[str, ...]) -> list[list[str]]:
    """Devices that are joined at one of the levels, over others too; NVLinks say nothing of PCIe,
    so those of two GPUs follow from the cards near them."""
    left, groups = list(matrix.lines), []
    while left:
        group = [left.pop(0)]
        for one in group:
            near = [other for other in left if matrix.level(one, other) in levels]
            group += near
            left = [other for other in left if other not in near]
        groups.append(sorted(group, key=list(matrix.lines).index))
    return groups


def _shown(
    matrix: _Matrix, file: str, assumed: Assumed, gpu: Gpu
) -> tuple[list[str], dict[tuple[str, str], int]]:
    """The GPUs, and the number of NVLinks between each two."""
    gpus = matrix.gpus()
    levels = {ends: _NVLINK.fullmatch(matrix.level(*ends)) for ends in _pairs(gpus)}
    counts = {ends: int(found[2]) for ends, found in levels.items() if found}
    if any(counts.values()) or len(gpus) < 2:
        return gpus, counts
    said = _said(file, assumed, gpu)
    return gpus, dict.fromkeys(_pairs(gpus), said) if said else {}


def _said(file: str, assumed: Assumed, gpu: Gpu) -> int:
    """The NVLinks that the user gives each GPU, where the matrix shows none. `topo -mp` leaves
    them out, so GPUs that always have them are refused without a word of the user."""
    said = assumed.nvlinks
    if said is not None or gpu.bridged or not gpu.nvlinks:
        return said or 0
    message = f"shows no NVLinks, and each {assumed.gpu} has {gpu.nvlinks}"
    allowed = (
        "the output of nvidia-smi topo -m (topo -mp leaves NVLinks out); --assume nvlinks=0 "
        f"for a machine without; --assume nvlinks={gpu.nvlinks} for GPUs at an NVSwitch"
    )
    raise InputError([Problem(file, "", message, allowed)])


def _pairs(gpus: list[str]) -> Iterator[tuple[str, str]]:
    return ((one, other) for i, one in enumerate(gpus) for other in gpus[i + 1 :])


def _nvlinks(
    node: Node,
    shown: tuple[list[str], dict[tuple[str, str], int]],
    assumed: Assumed,
    gpu: Gpu,
) -> None:
    gpus, counts = shown
    totals = {name: sum(n for ends, n in counts.items() if name in ends) for name in gpus}
    latency = assumed.latency("nvlink") if counts else ""
    switched = {name for name, total in totals.items() if total > gpu.nvlinks}
    for name in gpus:
        if name in switched:
            count = max(n for ends, n in counts.items() if name in ends)
            node.switches["nvswitch"] = 1
            speed, note = assumed.nvlink(gpu.capability, count)
            node.links.append(Link(name, "nvswitch", speed, latency, "nvlink", note))
    for (one, other), count in counts.items():
        if count and not (one in switched and other in switched):
            speed, note = assumed.nvlink(gpu.capability, count)
            node.links.append(Link(one, other, speed, latency, "nvlink", note))
    if alone := [name for name in gpus if counts and not totals[name]]:
        node.warnings.append(f"{', '.join(alone)} has no NVLink, and other GPUs have.")
