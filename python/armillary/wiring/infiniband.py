"""The output of `ibnetdiscover`: every switch and adapter of an InfiniBand fabric, and each link
with its width and speed.

Each host channel adapter is one NPU, for the file does not say what is behind it. Links between the
same two devices are one link that is as fast as all of them together. Left out are routers, and
the adapters that switches with SHARP show for themselves. Source: the manual page ibnetdiscover(8)
of rdma-core ("Topology file format"); data rates of the InfiniBand Trade Association, for each lane
and without the coding of the line (8b/10b up to QDR, 64b/66b up to FDR)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..natural_order import natural_order
from .assumed import Assumed
from .node import Link, Node

HELP = "the output of ibnetdiscover"
MOST = 1 << 17
RATES = {"SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64, "EDR": 25.0}
RATES |= {"HDR": 50.0, "NDR": 100.0, "XDR": 200.0}
"""Gb/s of a lane."""
_NODE = re.compile(
    r'(Switch|Ca|Rt)\s+\d{1,5}\s+"([SHR]-[0-9a-fA-F]{1,16})"\s*#\s*"([^"]{0,200})".*'
)
_PORT = r"\[(\d{1,5})\](?:\[ext \d{1,5}\])?(?:\([0-9a-fA-F]{1,16}\))?(?:\[ext \d{1,5}\])?"
_LINK = re.compile(rf'{_PORT}\s+"([SHR]-[0-9a-fA-F]{{1,16}})"{_PORT}\s*#(.*)')
_SAID = re.compile(r'"([^"]{0,200})"')
_SPEED = re.compile(r"(\d{1,2})x([A-Z]DR(?:10)?)\s*$")
_OTHER = re.compile(r"#|\w+=|Non-Chassis|Chassis|DR path|\(\w")
_SHARP = re.compile(r"Aggregation Node|SHARP", re.IGNORECASE)


@dataclass
class Fabric:
    """Devices by identity (`S-`, `H-` or `R-` and a number), with their descriptions, and links by
    their two ports: Gb/s."""

    names: dict[str, str] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    """Devices with lines of their own."""
    links: dict[tuple[tuple[str, int], tuple[str, int]], float] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """Devices that a link names, with the first line that does."""


def is_fabric(text: str) -> bool:
    """Whether a text has a device of such a file."""
    return any(_NODE.fullmatch(line.strip()) for line in text.splitlines()[:2000])


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The fabric that the file describes. Raises `InputError` listing every problem."""
    fabric, problems, own = Fabric(), list[Problem](), ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if found := _NODE.fullmatch(line):
            own = found[2]
            fabric.names[own] = found[3]
            fabric.declared.add(own)
        elif (link := _LINK.fullmatch(line)) and own:
            problems += _add(fabric, own, link, file, number)
        elif line and not _OTHER.match(line):
            allowed = "a line of a device or of a link"
            problems.append(Problem(file, f"line {number}", f"{line[:60]!r} is not known", allowed))
        if len(problems) > 16:
            break
    if not problems:
        problems += _missing(fabric, file)
    if problems:
        raise InputError(problems)
    return joined(fabric, "output of ibnetdiscover", file, assumed)


def _add(
    fabric: Fabric, own: str, link: re.Match[str], file: str, number: int
) -> Iterator[Problem]:
    """A link, which each of its ends may list."""
    ends = ((own, int(link[1])), (link[2], int(link[3])))
    speed = _SPEED.search(link[4])
    if speed is None or speed[2] not in RATES:
        message = f"the link ends in {link[4].strip()[-20:]!r}, which is not a width and a speed"
        yield Problem(file, f"line {number}", message, "4xHDR, for example")
        return
    rate = int(speed[1]) * RATES[speed[2]]
    first, second = sorted(ends)
    if fabric.links.setdefault((first, second), rate) != rate:
        yield Problem(file, f"line {number}", "the other end of this link has another speed", HELP)
    fabric.lines.setdefault(link[2], number)
    if said := _SAID.search(link[4]):
        fabric.names.setdefault(link[2], said[1])


def _missing(fabric: Fabric, file: str) -> Iterator[Problem]:
    for name, line in sorted(fabric.lines.items()):
        if name.startswith("S-") and name not in fabric.declared:
            message = f"switch {name} is not in the file"
            yield Problem(file, f"line {line}", message, "the whole output of ibnetdiscover")
    if len(fabric.links) > MOST:
        yield Problem(file, "", f"{len(fabric.links):,} links", f"at most {MOST:,}")


def joined(fabric: Fabric, title: str, file: str, assumed: Assumed) -> Node:
    """The devices of a fabric with the links between them. Raises `InputError` for parts that
    nothing joins."""
    left_out = {name for name in {*fabric.names, *fabric.lines} if name.startswith("R-")}
    sharp = {name for name, said in fabric.names.items() if name[0] == "H" and _SHARP.search(said)}
    left_out |= sharp
    speeds: dict[tuple[str, str], float] = defaultdict(float)
    for ((one, _), (other, _)), rate in fabric.links.items():
        if one != other and not left_out & {one, other}:
            speeds[one, other] += rate
    used = {name for pair in speeds for name in pair}
    tiers = _tiers(speeds, file)
    names = _names(fabric, used)
    node = Node(title)
    node.npus = sorted((names[each] for each in used if each[0] == "H"), key=natural_order)
    switches = sorted((names[each], each) for each in used if each[0] == "S")
    node.switches = {name: tiers[each] for name, each in switches}
    latency = assumed.latency("cable")
    for (first, second), rate in sorted(speeds.items()):
        bandwidth = f"{round(rate, 2)} Gb/s"
        node.links.append(Link(names[first], names[second], bandwidth, latency, "network"))
    node.remarks.append("Each host channel adapter is one NPU, also one of storage or management.")
    if left_out:
        node.remarks.append(f"Left out: {len(left_out)} routers and adapters inside switches.")
    return node


def _names(fabric: Fabric, used: set[str]) -> dict[str, str]:
    """Descriptions as names, where they are there and belong to one device."""
    said = {each: "_".join(fabric.names.get(each, "").split()) for each in used}
    count = Counter(said.values())
    return {each: name if name and count[name] == 1 else each for each, name in said.items()}


def _tiers(speeds: Mapping[tuple[str, str], float], file: str) -> dict[str, int]:
    """How far each device is from the nearest adapter. Raises `InputError` for parts that nothing
    joins."""
    near: dict[str, list[str]] = {}
    for one, other in speeds:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    hosts = sorted(name for name in near if name[0] == "H")
    if not hosts:
        raise InputError([Problem(file, "", "has no adapter at a switch", HELP)])
    found = dict.fromkeys(hosts, 0)
    waiting = deque(hosts)
    while waiting:
        name = waiting.popleft()
        for other in near[name]:
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    reached, open_ = set[str](), [hosts[0]]
    while open_:
        name = open_.pop()
        if name not in reached:
            reached.add(name)
            open_ += near[name]
    if apart := sorted(set(near) - reached):
        message = f"nothing joins {apart[0]} to the rest"
        raise InputError([Problem(file, "", message, "one fabric")])
    return found
