"""Slurm's `topology.conf` of the plugin topology/block: blocks of hosts that are near each other,
such as those at one NVSwitch.

The file names no switches. Each block is taken as one switch, and one switch joins all blocks; a
warning says so. Hosts are NPUs, and speeds are given, as for the plugin topology/tree (`slurm.py`):
`card` for a host's link, `uplink` for that of a block. `BlockSizes` are for planning, and are not
used. Source: topology.conf(5) of Slurm 26.11, section topology/block."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import InputError, Problem
from ..natural_order import natural_order
from . import slurm
from .assumed import Assumed
from .node import Link, Node

HELP = "Slurm's topology.conf with BlockName"
_BLOCK = re.compile(r"^\s*Block(?:Name|Sizes)\s*=", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(r"(\w+)=(\S+)")
_NAME = re.compile(r"[\w.-]+")
_SIZES = re.compile(r"\d{1,9}(?:,\d{1,9})*")
_TOP = "blocks"
_WARNING = (
    "The file has blocks of hosts and no switches: each block is taken as one switch, and one "
    "switch joins all blocks."
)


def is_blocks(text: str) -> bool:
    """Whether a text has a line of this file."""
    return bool(_BLOCK.search(text))


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The fabric that the file describes. Raises `InputError` listing every problem."""
    blocks: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), 1):
        if words := line.partition("#")[0].split():
            problems += _line(blocks, words, file, f"line {number}")
    if problems := problems or [*_faults(blocks, file)]:
        raise InputError(problems)
    return _node(blocks, file, assumed)


def _line(
    blocks: dict[str, list[str]], words: list[str], file: str, place: str
) -> Iterator[Problem]:
    pairs = [_PAIR.fullmatch(word) for word in words]
    found = {pair[1].lower(): pair[2] for pair in pairs if pair}
    if set(found) == {"blocksizes"} and len(words) == 1:
        if not _SIZES.fullmatch(found["blocksizes"]):
            said = f"{found['blocksizes'][:60]!r} are not sizes of blocks"
            yield Problem(file, place, said, "numbers, such as BlockSizes=18,36")
        return
    if set(found) != {"blockname", "nodes"} or len(words) != 2:
        said = f"{' '.join(words)[:60]!r} is not a block"
        yield Problem(file, place, said, "BlockName= with Nodes=, or BlockSizes=")
        return
    name, hosts = found["blockname"], slurm.expand(found["nodes"])
    if not _NAME.fullmatch(name) or name in blocks or name == _TOP:
        what = "appears twice" if name in blocks else "is not a name that a block may have here"
        yield Problem(file, place, f"block {name[:60]!r} {what}", "BlockName= once for each")
    elif not hosts or len(hosts) > slurm.MOST:
        said = f"{found['nodes'][:60]!r} is not a list of at most {slurm.MOST:,} names"
        yield Problem(file, place, said, "names such as tux[0-3,12]")
    else:
        blocks[name] = hosts
        if sum(map(len, blocks.values())) > slurm.MOST:
            raise InputError([Problem(file, place, "too many hosts", f"at most {slurm.MOST:,}")])


def _faults(blocks: dict[str, list[str]], file: str) -> Iterator[Problem]:
    """No host, hosts in two blocks, and hosts that are called like blocks."""
    if not blocks:
        yield Problem(file, "", "has no block", "BlockName= with Nodes=")
    seen: dict[str, str] = {}
    for name, hosts in blocks.items():
        for host in hosts:
            if host in blocks or host == _TOP:
                yield Problem(file, name, f"{host} is a host and a block", "two names")
                return
            if host in seen:
                yield Problem(file, name, f"{host} is also in {seen[host]}", "one block a host")
                return
            seen[host] = name


def _node(blocks: dict[str, list[str]], file: str, assumed: Assumed) -> Node:
    hosts = sorted((host for each in blocks.values() for host in each), key=natural_order)
    node = Node("blocks in topology.conf of Slurm", hosts)
    node.switches = dict.fromkeys(blocks, 1)
    latency = assumed.latency("cable")
    speed, note = slurm.host_link(file, assumed)
    node.links = [
        Link(host, name, speed, latency, "network", note.strip())
        for name, each in blocks.items()
        for host in each
    ]
    if len(blocks) > 1:
        uplink = assumed.named("uplink")
        if uplink is None:
            message = "the file does not say how fast the links between its blocks are"
            way = "--assume 'uplink=400 GB/s', for all cables of a block together"
            raise InputError([Problem(file, "", message, way)])
        node.switches[_TOP] = 2
        node.links += [Link(name, _TOP, uplink, latency, "network") for name in blocks]
    node.remarks.append(slurm.ONE_NPU)
    node.warnings.append(_WARNING)
    return node
