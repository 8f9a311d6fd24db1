"""InfraGraph: devices with components, links and edges; instances of devices; edges between them.

The form is that of `keysight/infragraph` (`Infrastructure` of its OpenAPI document, version 0.6 and
later), in YAML or JSON; ASTRA-sim 3.0 reads the same. Components of kind `npu`, `xpu` or `gpu` are
NPUs. A `port` is a place on a device and no device itself, so messages pass it without a link of
its own. Edges name components by Python's slices: `npu[0:4]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from .. import documents
from ..errors import InputError, Problem
from .assumed import Assumed
from .node import Link, Node
from .unused_devices import without_dead_ends

HELP = "an infrastructure of InfraGraph: devices, instances, edges, links"
MOST_NODES, MOST_EDGES = 1 << 17, 1 << 19
_NPUS = ("npu", "xpu", "gpu")
_SCHEMES = ("one2one", "many2many")
_SLICE = re.compile(r"([^\[\]]+)(?:\[(-?\d{0,9})(?:(:)(-?\d{0,9}))?\])?")
_SPEEDS = {
    "gigabits_per_second": 1 / 8,
    "gigabytes_per_second": 1.0,
    "g_bits_per_second": 1 / 8,
    "g_bytes_per_second": 1.0,
}
"""GB/s of a unit of bandwidth; the last two are of earlier releases."""
_TIMES = ("ms", "us", "ns")
_GUESSES = (("c2c", "c2c"), ("nvlink", "nvlink"), ("pci", "pcie"))
"""Kind of a link by a part of its name, where it has no bandwidth."""


@dataclass(frozen=True)
class _Edge:
    """Two vertices and the speed of what joins them, if the file says it."""

    a: str
    b: str
    link: str
    bandwidth: float | None
    latency: str | None


@dataclass
class _Reader:
    file: str
    assumed: Assumed
    lines: Mapping[documents.Path_, int]
    kinds: dict[str, str] = field(default_factory=dict)
    """Kind of each vertex."""
    edges: list[_Edge] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def is_infragraph(text: str) -> bool:
    """Whether a text has the main keys, in YAML or JSON."""
    return all(re.search(rf'^\s*[{{"]*{key}"?\s*:', text, re.M) for key in ("devices", "instances"))


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The fabric of an infrastructure. Raises `InputError` listing every problem."""
    document = documents.parse_yaml(text, file, HELP)
    reader = _Reader(file, assumed, document.lines)
    root: documents.Path_ = ()
    value = document.value
    if isinstance(value, dict) and isinstance(value.get("infrastructure"), dict):
        value, root = value["infrastructure"], ("infrastructure",)
    if not isinstance(value, dict):
        raise InputError([Problem(file, "", "is not a mapping", HELP)])
    if "connections" in value and "edges" not in value:
        message = "`connections` is the form of InfraGraph before its edges"
        raise InputError([Problem(file, _place(reader, (*root, "connections")), message, "edges")])
    _instances(reader, value, root)
    _stop(reader)
    return _node(reader, value.get("name"))


def _instances(reader: _Reader, value: dict[str, Any], root: documents.Path_) -> None:
    """All vertices, and all edges inside devices and between them."""
    devices = _named(reader, value, root, "devices")
    instances = _named(reader, value, root, "instances")
    counts: dict[str, tuple[int, dict[str, int]]] = {}
    for name, (instance, path) in instances.items():
        found = devices.get(str(instance.get("device")))
        if found is None:
            _refuse(reader, (*path, "device"), _unknown("device", instance.get("device")), devices)
            continue
        count = _count(reader, instance, path)
        components = _components(reader, *found)
        counts[name] = (count, {key: many for key, (many, _) in components.items()})
        if count * sum(many for many, _ in components.values()) + len(reader.kinds) > MOST_NODES:
            _refuse(reader, path, "too many components", [f"up to {MOST_NODES:,}"])
            return
        for number, (key, (many, kind)) in product(range(count), components.items()):
            for place in range(many):
                reader.kinds[f"{name}.{number}.{key}.{place}"] = kind
        inside = {key: many for key, (many, _) in components.items()}
        for number in range(count):
            _edges(reader, *found, {f"{name}.{number}": inside}, f"{name}.{number}")
    flat = {
        f"{name}.{number}": inside
        for name, (count, inside) in counts.items()
        for number in range(count)
    }
    _edges(reader, value, root, flat, None, {name: count for name, (count, _) in counts.items()})


def _components(
    reader: _Reader, device: dict[str, Any], path: documents.Path_
) -> dict[str, tuple[int, str]]:
    """Count and kind of each component of a device."""
    found = {}
    for name, (component, place) in _named(reader, device, path, "components").items():
        kind = component.get("choice", component.get("type", "custom"))
        if kind == "device":
            message = f"component {name!r} is a device of its own"
            allowed = ["components written out: expand the composed device first"]
            _refuse(reader, place, message, allowed)
        found[name] = (_count(reader, component, place), str(kind))
    return found


def _edges(
    reader: _Reader,
    holder: dict[str, Any],
    path: documents.Path_,
    vertices: Mapping[str, Mapping[str, int]],
    owner: str | None,
    instances: Mapping[str, int] | None = None,
) -> None:
    """The edges of a device (of the instance `owner`), or of the infrastructure."""
    links = _named(reader, holder, path, "links")
    for index, edge in enumerate(_list(reader, holder, path, "edges")):
        at = (*path, "edges", index)
        if not isinstance(edge, dict):
            _refuse(reader, at, "is not a mapping", ["ep1, ep2, link, scheme"])
            continue
        scheme = edge.get("scheme", "many2many" if edge.get("many2many") else "one2one")
        if scheme not in _SCHEMES:
            _refuse(reader, (*at, "scheme"), f"unknown scheme {scheme!r}", list(_SCHEMES))
            continue
        link = links.get(str(edge.get("link")))
        if link is None:
            _refuse(reader, (*at, "link"), _unknown("link", edge.get("link")), links)
            continue
        ends = [
            _ends(reader, edge.get(key), (*at, key), vertices, owner, instances)
            for key in ("ep1", "ep2")
        ]
        _join(reader, ends[0], ends[1], str(scheme), link, at)
        if len(reader.edges) > MOST_EDGES:
            _refuse(reader, at, "too many edges", [f"up to {MOST_EDGES:,}"])
            return


def _join(
    reader: _Reader,
    one: list[str],
    other: list[str],
    scheme: str,
    link: tuple[dict[str, Any], documents.Path_],
    at: documents.Path_,
) -> None:
    pairs: Iterator[tuple[str, str]] | list[tuple[str, str]]
    if scheme == "many2many":
        if len(one) * len(other) > MOST_EDGES:
            _refuse(reader, at, "too many edges", [f"up to {MOST_EDGES:,}"])
            return
        # Both ends may be the same components (`cpu` to `cpu`): each pair once.
        pairs = list(dict.fromkeys((min(p), max(p)) for p in product(one, other) if p[0] != p[1]))
    else:
        # The longer end may name more than the other has: `port` without a slice is all ports.
        pairs = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    bandwidth, latency = _physical(reader, *link)
    name = str(link[0].get("name"))
    reader.edges += [_Edge(a, b, name, bandwidth, latency) for a, b in pairs]


def _ends(
    reader: _Reader,
    end: Any,  # noqa: ANN401
    at: documents.Path_,
    vertices: Mapping[str, Mapping[str, int]],
    owner: str | None,
    instances: Mapping[str, int] | None,
) -> list[str]:
    """The vertices that an end of an edge names, instance by instance."""
    if not isinstance(end, dict):
        _refuse(
            reader, at, "is not a valid end of an edge", ["component, and instance between devices"]
        )
        return []
    if owner is None and instances is not None:
        named = _sliced(reader, end.get("instance"), (*at, "instance"), instances, "instance")
        owners = [f"{name}.{number}" for name, number in named]
    elif end.get("device"):
        _refuse(reader, (*at, "device"), "edges into a device inside", ["components of the device"])
        return []
    else:
        owners = [owner or ""]
    found = []
    for each in owners:
        components = vertices.get(each, {})
        where = (*at, "component")
        named = _sliced(reader, end.get("component"), where, components, "component")
        found += [f"{each}.{name}.{number}" for name, number in named]
    return found


def _sliced(
    reader: _Reader,
    text: Any,  # noqa: ANN401
    at: documents.Path_,
    counts: Mapping[str, int],
    what: str,
) -> list[tuple[str, int]]:
    """`npu[0:2]` as names and numbers, by the rules of Python's slices."""
    found = _SLICE.fullmatch(str(text)) if text is not None else None
    if found is None or found[1] not in counts:
        _refuse(reader, at, _unknown(what, text), counts)
        return []
    name, count = found[1], counts[found[1]]
    if found[2] is None:
        return [(name, number) for number in range(count)]
    if found[3]:
        chosen = range(count)[slice(_bound(found[2]), _bound(found[4]))]
        return [(name, number) for number in chosen]
    number = int(found[2]) if found[2] not in ("", "-") else count
    if not -count <= number < count:
        _refuse(reader, at, f"{text!r} is beyond the last {what}", [f"0 to {count - 1}"])
        return []
    return [(name, number % count)]


def _bound(text: str) -> int | None:
    return int(text) if text not in ("", "-") else None


def _physical(
    reader: _Reader, link: dict[str, Any], path: documents.Path_
) -> tuple[float | None, str | None]:
    """GB/s and latency of a link, where it has them."""
    physical = link.get("physical")
    if not isinstance(physical, dict):
        return None, None
    bandwidth, latency = physical.get("bandwidth"), physical.get("latency")
    speed, delay = None, None
    if isinstance(bandwidth, dict):
        given = bandwidth.get("choice")
        unit = str(given or next((key for key in _SPEEDS if key in bandwidth), ""))
        number = bandwidth.get(unit)
        at = (*path, "physical", "bandwidth")
        if unit not in _SPEEDS or number is None or not _is_positive(number):
            _refuse(
                reader, at, f"{unit[:40]!r} is {number!r}"[:120], [*_SPEEDS, "a number above 0"]
            )
        else:
            speed = number * _SPEEDS[unit]
    if isinstance(latency, dict):
        given = latency.get("choice")
        unit = str(given or next((key for key in _TIMES if key in latency), ""))
        number = latency.get(unit)
        if unit not in _TIMES or not _is_positive(number):
            at = (*path, "physical", "latency")
            _refuse(reader, at, f"{unit[:40]!r} is {number!r}"[:120], [*_TIMES, "a number above 0"])
        else:
            delay = f"{number:g} {unit}"
    return speed, delay


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < 1e9


def _node(reader: _Reader, name: object) -> Node:
    """Vertices and edges as a fabric: ports joined through, dead ends left out."""
    edges = _through_ports(reader)
    node = Node(f"InfraGraph{f' {name}' if name else ''}")
    for vertex, kind in reader.kinds.items():
        if kind in _NPUS:
            node.npus.append(vertex)
        elif kind != "port":
            node.switches[vertex] = 1
    if not node.npus:
        message = "has no NPU"
        raise InputError([Problem(reader.file, "", message, "a component of kind npu or xpu")])
    node.links = [Link(edge.a, edge.b, "", "", edge.link) for edge in edges]
    without_dead_ends(node)
    kept = {(link.a, link.b, link.kind) for link in node.links}
    edges = [edge for edge in edges if (edge.a, edge.b, edge.link) in kept]
    _tiers(node)
    missing = sorted(
        {edge.link for edge in edges if edge.bandwidth is None and not _guess(reader, edge)}
    )
    if missing:
        raise InputError(
            [
                Problem(
                    reader.file,
                    f"links: {link}",
                    "has no bandwidth, and NPUs send over it",
                    f'physical.bandwidth in the file, or --assume "{link}=50 GB/s"',
                )
                for link in missing
            ]
        )
    node.links = [_link(reader, edge) for edge in edges]
    return node


def _guess(reader: _Reader, edge: _Edge) -> tuple[str, str] | None:
    """Bandwidth of a link without one: what the user gave, or NVLink's or PCIe's by its name."""
    if given := reader.assumed.named(edge.link):
        return given, ""
    capability = reader.assumed.capability
    name = next((name for part, name in _GUESSES if part in edge.link.lower()), None)
    if name is None or capability is None:
        return None
    if name == "pcie":
        return reader.assumed.pcie(capability)
    if name == "c2c":
        product = reader.assumed.product
        return reader.assumed.c2c(product) if product is not None and product.c2c else None
    return reader.assumed.nvlink(capability, 1)


def _link(reader: _Reader, edge: _Edge) -> Link:
    note = ""
    if edge.bandwidth is not None:
        speed = f"{edge.bandwidth:g} GB/s"
    else:
        speed, note = _guess(reader, edge) or ("1 GB/s", "")
    latency = edge.latency or reader.assumed.latency("cable")
    return Link(edge.a, edge.b, speed, latency, edge.link, note.strip())


def _through_ports(reader: _Reader) -> list[_Edge]:
    """Edges in which a port that joins two vertices is passed as if it were not there."""
    near: dict[str, list[_Edge]] = {}
    for edge in reader.edges:
        for end in (edge.a, edge.b):
            if reader.kinds.get(end) == "port":
                near.setdefault(end, []).append(edge)
    edges = dict.fromkeys(reader.edges)
    for port, _ in list(near.items()):
        found = [edge for edge in near[port] if edge in edges]
        if len(found) != 2:
            reader.kinds[port] = "port" if len(found) < 2 else "switch"
            continue
        one, other = found
        ends = [edge.b if edge.a == port else edge.a for edge in found]
        if ends[0] == ends[1]:
            continue
        slow = [edge for edge in found if edge.bandwidth is not None]
        base = min(slow, key=lambda edge: edge.bandwidth or 0.0) if slow else one
        joined = _Edge(ends[0], ends[1], base.link, base.bandwidth, one.latency or other.latency)
        for edge in found:
            del edges[edge]
        edges[joined] = None
        for end in ends:
            if reader.kinds.get(end) == "port":
                near[end].append(joined)
    ports = {vertex for vertex, kind in reader.kinds.items() if kind == "port"}
    kept = [edge for edge in edges if edge.a not in ports and edge.b not in ports]
    return _short_names(reader, kept, ports)


def _short_names(reader: _Reader, edges: list[_Edge], ports: set[str]) -> list[_Edge]:
    """A device of a single component besides its ports has the name of the device: `leafsw.0`."""
    inside: dict[str, list[str]] = {}
    for vertex in reader.kinds:
        if vertex not in ports:
            inside.setdefault(vertex.rsplit(".", 2)[0], []).append(vertex)
    names = {found[0]: device for device, found in inside.items() if len(found) == 1}
    reader.kinds = {names.get(vertex, vertex): kind for vertex, kind in reader.kinds.items()}
    return [
        replace(edge, a=names.get(edge.a, edge.a), b=names.get(edge.b, edge.b)) for edge in edges
    ]


def _tiers(node: Node) -> None:
    """Tiers by the distance from the NPUs."""
    near: dict[str, list[str]] = {}
    for link in node.links:
        near.setdefault(link.a, []).append(link.b)
        near.setdefault(link.b, []).append(link.a)
    tier, now = 0, list(node.npus)
    seen = set(now)
    while now:
        tier += 1
        now = [other for name in now for other in near.get(name, ()) if other not in seen]
        now = list(dict.fromkeys(now))
        seen.update(now)
        node.switches.update(dict.fromkeys(now, tier))


def _named(
    reader: _Reader, holder: dict[str, Any], path: documents.Path_, key: str
) -> dict[str, tuple[dict[str, Any], documents.Path_]]:
    """The items of a list by their name, each with its place."""
    found: dict[str, tuple[dict[str, Any], documents.Path_]] = {}
    for index, item in enumerate(_list(reader, holder, path, key)):
        at = (*path, key, index)
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            _refuse(reader, at, "has no name", ["name: and a text"])
        elif name in found:
            _refuse(reader, at, f"two of {key} are called {name!r}", ["each name once"])
        else:
            found[name] = (item, at)
    return found


def _list(reader: _Reader, holder: dict[str, Any], path: documents.Path_, key: str) -> list[Any]:
    value = holder.get(key, [])
    if isinstance(value, list):
        return value
    _refuse(reader, (*path, key), f"is {type(value).__name__}", ["a list"])
    return []


def _count(reader: _Reader, item: dict[str, Any], path: documents.Path_) -> int:
    count = item.get("count", 1)
    if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= MOST_NODES:
        return count
    _refuse(reader, (*path, "count"), f"count is {count!r}", [f"1 to {MOST_NODES:,}"])
    return 1


def _unknown(what: str, name: object) -> str:
    return f"unknown {what} {str(name)[:60]!r}"


def _refuse(
    reader: _Reader, path: documents.Path_, message: str, allowed: Mapping[str, Any] | list[str]
) -> None:
    if len(reader.problems) < 100:
        shown = ", ".join(list(allowed)[:8]) or "nothing: there is none"
        reader.problems.append(Problem(reader.file, _place(reader, path), message, shown))


def _place(reader: _Reader, path: documents.Path_) -> str:
    return documents.place(path, reader.lines)


def _stop(reader: _Reader) -> None:
    if reader.problems:
        raise InputError(reader.problems)
