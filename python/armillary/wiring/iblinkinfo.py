"""The output of `iblinkinfo`: every port of an InfiniBand fabric, the port at its other end, width
and speed.

Devices are known by the local identifiers (LIDs) of their ports: a switch has one, an adapter one
for each port. They become the same as those of `ibnetdiscover` (`infiniband.py`). Links that are
not active carry nothing and are left out. Source: infiniband-diags/iblinkinfo.c of
linux-rdma/rdma-core; signalling rates of libibmad/dump.c."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from .assumed import Assumed
from .infiniband import MOST, RATES, Fabric, joined
from .node import Node

HELP = "the output of iblinkinfo"
_LANES = {
    "2.5": "SDR",
    "5.0": "DDR",
    "10.0": "QDR",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}
"""Generations by the signalling rate of a lane in Gb/s."""
_DEVICE = re.compile(r"(?:(CA|Router): (.{1,200})|Switch: (0x[0-9a-fA-F]{1,16}) (.{1,200})):")
_END = r"(\d{1,6})\s+(\d{1,5})\[[\s\d]{0,6}\]"
_PORT = re.compile(rf"(?:0x[0-9a-fA-F]{{1,16}} )?\s*{_END} ==\((.{{1,200}}?)\)==>\s*(.*)")
_OWN_LINE = re.compile(rf'0x[0-9a-fA-F]{{1,16}} "[^"]{{1,200}}"\s+{_END} ==\(')
"""A port of `iblinkinfo --line`."""
_STATE = re.compile(r"(?:(\d{1,2})X\s+(\S+) Gbps( \(FDR10\))?\s+)?(\w+)/\s*(\w+)")
_FAR = re.compile(rf'{_END} "([^"]{{0,200}})" \((.*)\)')
_KINDS = {"CA": "H", "Router": "R"}


@dataclass(frozen=True, slots=True)
class _Port:
    """A line: its number, the device that it belongs to, and both ends as LID and port."""

    line: int
    device: str
    own: tuple[int, int]
    far: tuple[int, int]
    rate: float


@dataclass
class _Ports:
    """Devices by their LIDs; of an adapter also by its port, for each has one of its own."""

    fabric: Fabric = field(default_factory=Fabric)
    found: list[_Port] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    idle: int = 0
    slow: int = 0


def is_fabric(text: str) -> bool:
    """Whether a text has a port of such an output."""
    return any(
        pattern.match(line.strip())
        for line in text.splitlines()[:2000]
        if "==(" in line
        for pattern in (_PORT, _OWN_LINE)
    )


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The fabric that the output describes. Raises `InputError` listing every problem."""
    ports, problems, device = _Ports(), list[Problem](), ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if found := _DEVICE.fullmatch(line):
            device = f"{_KINDS.get(found[1], 'S')}-{len(ports.fabric.names):x}"
            ports.fabric.names[device] = found[2] or found[4]
        elif _OWN_LINE.match(line):
            message = "a port of iblinkinfo --line, which does not say which devices are switches"
            raise InputError(
                [Problem(file, f"line {number}", message, "iblinkinfo without --line")]
            )
        elif (port := _PORT.fullmatch(line)) and device:
            problems += _add(ports, device, port, file, number)
        elif line and not line.startswith("#"):
            allowed = "a line of a device or of a port"
            problems.append(Problem(file, f"line {number}", f"{line[:60]!r} is not known", allowed))
        if len(problems) > 16:
            break
    problems = problems or list(_join(ports, file))
    if problems:
        raise InputError(problems)
    node = joined(ports.fabric, "output of iblinkinfo", file, assumed)
    for count, said in ((ports.idle, "not active"), (ports.slow, "slower than both ends allow")):
        if count:
            node.remarks.append(f"Ports that are {said}: {count:,}.")
    return node


def _add(
    ports: _Ports, device: str, port: re.Match[str], file: str, number: int
) -> Iterator[Problem]:
    """A port with its other end. Ports that are not active are counted."""
    where = f"line {number}"
    state = _STATE.match(port[3].strip())
    if state is None:
        message = f"{port[3].strip()[:40]!r} is not a width, a speed and a state"
        yield Problem(file, where, message, "4X 53.125 Gbps Active/LinkUp, for example")
        return
    own = (int(port[1]), int(port[2]))
    if state[4] == "Down":
        return
    if ports.owners.setdefault(own[0], device) != device or not own[0]:
        message = f"LID {own[0]} is of two devices" if own[0] else "has no LID"
        yield Problem(file, where, message, "the output of one subnet with a subnet manager")
        return
    if state[4] != "Active":
        ports.idle += 1
        return
    far = _FAR.fullmatch(port[4].strip())
    lanes = RATES["FDR10"] if state[3] else RATES.get(_LANES.get(state[2] or "", ""))
    if far is None or lanes is None or not state[1]:
        message = "does not say the other end" if lanes else f"unknown speed: {state[2]} Gbps"
        yield Problem(file, where, message, "one of " + ", ".join(_LANES) + " Gbps for each lane")
        return
    ports.slow += "Could be" in far[4]
    ends = (int(far[1]), int(far[2]))
    ports.found.append(_Port(number, device, own, ends, int(state[1]) * lanes))


def _join(ports: _Ports, file: str) -> Iterator[Problem]:
    """Links between devices, from the ports of both ends."""
    if len(ports.found) > 2 * MOST:
        yield Problem(file, "", f"{len(ports.found):,} ports", f"at most {2 * MOST:,}")
        return
    rates = {port.own: port.rate for port in ports.found}
    back = {port.own: port.far for port in ports.found}
    for port in ports.found:
        where = f"line {port.line}"
        other = ports.owners.get(port.far[0])
        if other is None:
            message = f"the device with LID {port.far[0]} is not in the file"
            yield Problem(file, where, message, "the whole output of iblinkinfo, of all devices")
        elif back.get(port.far) != port.own:
            message = f"port {port.far[1]} of LID {port.far[0]} does not lead back here"
            yield Problem(file, where, message, HELP)
        elif rates[port.far] != port.rate:
            yield Problem(file, where, "the other end of this link has another speed", HELP)
        else:
            ends = ((port.device, port.own[1]), (other, port.far[1]))
            first, second = sorted(ends)
            ports.fabric.links[first, second] = port.rate
