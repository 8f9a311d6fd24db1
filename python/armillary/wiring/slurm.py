"""Slurm's `topology.conf` of the plugin topology/tree: switches, and the hosts or switches below
each.

The file names hosts and not what is in them, so each host is one NPU. It has no speeds: a host's
link is that of its network card, and what joins two switches must be given (`--assume uplink=...`),
for one line may stand for many cables. Source: topology.conf(5) of Slurm 24.11 (keys without regard
to case, `#` comments, hostlists such as `tux[0-3,12]`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from ..errors import InputError, Problem
from ..natural_order import natural_order
from .assumed import Assumed
from .node import Link, Node

HELP = "Slurm's topology.conf with SwitchName"
MOST = 1 << 17
ONE_NPU = "Each host of Slurm is one NPU, for the file does not say what is in it."
_LINE = re.compile(r"^\s*SwitchName\s*=", re.IGNORECASE | re.MULTILINE)
_BLOCK = re.compile(r"^\s*Block(?:Name|Sizes)\s*=", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(r"(\w+)=(\S+)")
_NAME = re.compile(r"[\w.-]+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_KEYS = ("switchname", "nodes", "switches", "linkspeed")
_BLOCKS = "lines that begin with SwitchName, or --format slurm-blocks"


@dataclass
class _Tree:
    """Switches with what is below each, and the line of each."""

    lines: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    speeds: int = 0
    """Lines with a LinkSpeed."""


def is_slurm(text: str) -> bool:
    """Whether a text has a line of this file."""
    return bool(_LINE.search(text))


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The fabric that the file describes. Raises `InputError` listing every problem."""
    if (block := _BLOCK.search(text)) is not None:
        place = f"line {text.count(chr(10), 0, block.end()) + 1}"
        message = "has blocks of hosts and not switches"
        raise InputError([Problem(file, place, message, _BLOCKS)])
    tree, problems = _Tree(), list[Problem]()
    for number, line in enumerate(text.splitlines(), 1):
        if words := line.partition("#")[0].split():
            problems += _line(tree, words, file, f"line {number}")
    if problems := problems or [*_faults(tree, file)]:
        raise InputError(problems)
    return _node(tree, file, assumed)


def _line(tree: _Tree, words: list[str], file: str, place: str) -> Iterator[Problem]:
    found: dict[str, str] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None or pair[1].lower() not in _KEYS:
            allowed = "SwitchName=, Nodes=, Switches=, LinkSpeed="
            yield Problem(file, place, f"{word[:60]!r} is not a key with a value", allowed)
            return
        found[pair[1].lower()] = pair[2]
    name = found.get("switchname", "")
    if not _NAME.fullmatch(name) or name in tree.lines:
        what = "appears twice" if name in tree.lines else "is not a name"
        yield Problem(file, place, f"switch {name[:60]!r} {what}", "SwitchName= once for each")
        return
    tree.lines[name] = int(place.split()[1])
    tree.speeds += "linkspeed" in found
    for key, into in (("nodes", tree.hosts), ("switches", tree.below)):
        names = expand(found.get(key, ""))
        if names is None or len(names) > MOST:
            message = f"{found[key][:60]!r} is not a list of at most {MOST:,} names"
            yield Problem(file, f"{place}: {key}", message, "names such as tux[0-3,12]")
            return
        into[name] = names
    if not tree.hosts[name] and not tree.below[name]:
        yield Problem(file, place, f"nothing is below {name}", "Nodes= or Switches=")
    elif sum(map(len, (*tree.hosts.values(), *tree.below.values()))) > MOST:
        raise InputError([Problem(file, place, "too many links", f"at most {MOST:,}")])


def expand(text: str) -> list[str] | None:
    """The names of a hostlist, in order; None for what is none."""
    found: list[str] = []
    for part in filter(None, re.split(r",(?![^\[]*\])", text)):
        choices: list[list[str]] = []
        for piece in re.findall(r"\[[^\]]*\]|[^\[\]]+", part):
            numbers = _numbers(piece[1:-1]) if piece.startswith("[") else [piece]
            if numbers is None or not all(_NAME.fullmatch(number) for number in numbers):
                return None
            choices.append(numbers)
        count = 1
        for numbers in choices:
            count *= len(numbers)
        if "".join(re.findall(r"\[[^\]]*\]|[^\[\]]+", part)) != part or count > MOST:
            return None
        found += ["".join(each) for each in product(*choices)]
    return found


def _numbers(text: str) -> list[str] | None:
    """`0-3,12` as words, with the zeros in front that the first of a range has."""
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high < low + MOST:
            return None
        found += [f"{number:0{len(match[1])}d}" for number in range(low, high + 1)]
    return found


def _faults(tree: _Tree, file: str) -> Iterator[Problem]:
    """Names twice or nowhere, hosts that are called like switches, circles, parts on their own."""
    for name, children in tree.below.items():
        place = f"line {tree.lines[name]}"
        for child in children:
            if child not in tree.lines:
                message = f"switch {child} has no line of its own"
                yield Problem(file, place, message, f"SwitchName={child}")
        for key, names in (("nodes", tree.hosts[name]), ("switches", children)):
            if twice := [each for each, count in Counter(names).items() if count > 1]:
                yield Problem(file, f"{place}: {key}", f"has {twice[0]} twice", "each name once")
        for host in tree.hosts[name]:
            if host in tree.lines:
                yield Problem(file, place, f"{host} is a host and a switch", "two names")
    if not any(tree.hosts.values()):
        yield Problem(file, "", "has no host", "Nodes= behind the switches of hosts")
        return
    if set(tree.lines) - set(heights(tree.below)):
        yield Problem(file, "", "switches are below each other in a circle", "a tree")
    yield from _apart(tree, file)


def _apart(tree: _Tree, file: str) -> Iterator[Problem]:
    """A part that nothing joins to the rest."""
    reached, open_ = set[str](), [next(iter(tree.lines))]
    near: dict[str, set[str]] = {}
    for name in tree.lines:
        for other in (*tree.below[name], *tree.hosts[name]):
            near.setdefault(name, set()).add(other)
            near.setdefault(other, set()).add(name)
    while open_:
        name = open_.pop()
        if name not in reached:
            reached.add(name)
            open_ += near.get(name, ())
    if apart := sorted(set(near) - reached):
        yield Problem(file, "", f"nothing joins {apart[0]} to the rest", "one network of all hosts")


def heights(below: dict[str, list[str]]) -> dict[str, int]:
    """The tier of each switch, 1 above hosts; none for those in a circle or above one."""
    found: dict[str, int] = {}
    waiting = dict.fromkeys(below, 0)
    above: dict[str, list[str]] = {}
    for name, children in below.items():
        waiting[name] = len(children)
        for child in children:
            above.setdefault(child, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        found[name] = 1 + max((found[child] for child in below[name]), default=0)
        for parent in above.get(name, ()):
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    return found


def _node(tree: _Tree, file: str, assumed: Assumed) -> Node:
    hosts = {host for names in tree.hosts.values() for host in names}
    node = Node("topology.conf of Slurm", sorted(hosts, key=natural_order))
    tiers = heights(tree.below)
    node.switches = {name: tiers[name] for name in tree.lines}
    latency = assumed.latency("cable")
    speed, note = host_link(file, assumed)
    for name, names in tree.hosts.items():
        node.links += [Link(host, name, speed, latency, "network", note.strip()) for host in names]
    uplink = assumed.named("uplink")
    for name, children in tree.below.items():
        if children and uplink is None:
            message = "the file does not say how fast the links between its switches are"
            way = "--assume 'uplink=400 GB/s', for all cables of two switches together"
            raise InputError([Problem(file, f"line {tree.lines[name]}", message, way)])
        node.links += [Link(child, name, str(uplink), latency, "network") for child in children]
    node.remarks.append(ONE_NPU)
    if tree.speeds:
        node.remarks.append("LinkSpeed is not used: it has no unit, and Slurm does not use it.")
    return node


def host_link(file: str, assumed: Assumed) -> tuple[str, str]:
    """Bandwidth of a host's link, and a note. Raises `InputError` if the user gives none."""
    if assumed.capability is None and assumed.named("card") is None:
        message = "the file does not say how fast a host's network card is"
        way = "--assume 'card=50 GB/s', or --gpu for the card of a DGX of its age"
        raise InputError([Problem(file, "", message, way)])
    return assumed.card(assumed.capability)
