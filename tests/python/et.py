"""Writes small Chakra execution traces for tests: length-prefixed protobuf messages, schema
0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER = 0, 2


@dataclass
class Node:
    """One operation; `attributes` are int64, bool or string by their Python type."""

    id: int
    kind: int
    name: str = ""
    after: Sequence[int] = ()
    micros: int = 0
    attributes: dict[str, int | bool | str] = field(default_factory=dict)


def compute(id: int, micros: int, after: Sequence[int] = (), name: str = "compute") -> Node:
    """A computation that takes `micros` microseconds."""
    return Node(id, COMPUTE, name, after, micros, {"is_cpu_op": False})


def collective(
    id: int, size: int, after: Sequence[int] = (), kind: int = ALL_REDUCE, name: str = "all_reduce"
) -> Node:
    """A collective of `size` bytes over everybody."""
    return Node(
        id, COLLECTIVE, name, after, 0, {"is_cpu_op": False, "comm_type": kind, "comm_size": size}
    )


def receive(id: int, source: int, rank: int, size: int, after: Sequence[int] = ()) -> Node:
    """A receive of `size` bytes from `source`."""
    ends: dict[str, int | bool | str] = {
        "comm_src": source,
        "comm_dst": rank,
        "comm_tag": 1,
        "comm_size": size,
    }
    return Node(id, RECEIVE, "recv", after, 0, {"is_cpu_op": False, **ends})


def send(id: int, rank: int, target: int, size: int, after: Sequence[int] = ()) -> Node:
    """A send of `size` bytes to `target`."""
    ends: dict[str, int | bool | str] = {
        "comm_src": rank,
        "comm_dst": target,
        "comm_tag": 1,
        "comm_size": size,
    }
    return Node(id, SEND, "send", after, 0, {"is_cpu_op": False, **ends})


def write(directory: Path, ranks: Iterable[Sequence[Node]], prefix: str = "trace") -> str:
    """Writes one file a rank and returns `directory/prefix.%d.et`."""
    directory.mkdir(parents=True, exist_ok=True)
    for rank, nodes in enumerate(ranks):
        messages = [_text(1, "0.0.4"), *map(_node, nodes)]
        framed = (_varint(len(message)) + message for message in messages)
        (directory / f"{prefix}.{rank}.et").write_bytes(b"".join(framed))
    return str(directory / f"{prefix}.%d.et")


def _node(node: Node) -> bytes:
    parts = [_number(1, node.id), _text(2, node.name), _number(3, node.kind)]
    parts += [_number(5, dependency) for dependency in node.after]
    parts += [_number(7, node.micros)]
    parts += [_bytes(10, _attribute(name, value)) for name, value in node.attributes.items()]
    return b"".join(parts)


def _attribute(name: str, value: int | bool | str) -> bytes:
    match value:
        case bool():
            return _text(1, name) + _number(27, int(value))
        case int():
            return _text(1, name) + _number(9, value)
        case str():
            return _text(1, name) + _text(29, value)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _text(tag: int, value: str) -> bytes:
    return _bytes(tag, value.encode())


def _bytes(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
