"""Which collective a kernel or host operator is, of what size, in which group.

Here: names, element types and the three places that describe a collective: the NCCL metadata that
Kineto puts on kernels and `record_param_comms`, the inputs of those operators in an execution
trace, the shapes of `nccl:*` annotations. Not here: membership of groups (`groups.py`). Bytes are
those of the operator's input on one rank, as PyTorch counts elements."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from .host_trace import HostNode, tensors
from .reading import LONGEST_NAME

Args = dict[str, Any]

KERNEL = re.compile(
    r"nccl(Dev)?Kernel|rccl|oneccl|hccl|deep_?ep::|dpsk::ep::(inter|intra)node|nvshmem",
    re.IGNORECASE,
)
"""Names of kernels that move bytes between ranks."""

_KINDS = (
    ("barrier", r"barrier"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_reduce", r"all_?reduce"),
    ("all_gather", r"all_?gather"),
    ("all_to_all", r"all_?to_?all|dispatch|combine"),
    ("broadcast", r"broadcast"),
    ("send_recv", r"send_?recv"),
    ("send", r"\bsend"),
    ("recv", r"\brecv"),
    ("gather", r"gather"),
    ("scatter", r"scatter"),
    ("reduce", r"reduce"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)
_WIDTHS = {
    8: "double long int64 longint complexfloat uint64 float64 u64 i64 f64",
    4: "float int float32 int32 uint32 u32 i32 f32 qint32",
    2: "half bfloat16 short float16 int16 bf16 f16 uint16",
    1: "bool char byte signedchar unsignedchar int8 uint8 float8_e4m3fn float8_e5m2 "
    "float8_e4m3fnuz float8_e5m2fnuz",
    16: "complexdouble",
}
WIDTHS = {name: width for width, names in _WIDTHS.items() for name in names.split()}


@dataclass(frozen=True)
class GroupRef:
    """A process group as one rank's trace names it; `ranks` empty and `size` 0 where it does not
    say."""

    name: str = ""
    ranks: tuple[int, ...] = ()
    size: int = 0


@dataclass(frozen=True)
class CommunicationCall:
    """A collective or message. `bytes` -1 where the trace does not say; `peer` and `root`
    likewise."""

    kind: str
    bytes: int
    dtype: str
    group: GroupRef
    source: str
    uneven: bool = False
    root: int = 0
    peer: int = -1


def kind_of(name: str) -> str:
    """`all_reduce`, ..., `send`, `recv`, `send_recv` (either, or an all-to-all), or empty."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name, 0, LONGEST_NAME)), "")


def width_of(dtype: str) -> int:
    """Bytes of an element, 0 for a type not known. Takes `Float`, `c10::BFloat16`, `long int`,
    `Tensor(float)`."""
    bare = dtype.rsplit("(", maxsplit=1)[-1].rstrip(")").split("::")[-1].replace(" ", "").lower()
    return WIDTHS.get(bare, 0)


def from_metadata(arguments: Args) -> CommunicationCall | None:
    """From `Collective name`, `In msg nelems`, `dtype`, ... of a kernel or of
    `record_param_comms`."""
    name = str(arguments.get("Collective name", ""))
    kind = kind_of(name)
    if not kind or name == "wait":
        return None
    dtype = str(arguments.get("dtype", ""))
    width, count = width_of(dtype), arguments.get("In msg nelems")
    known = width > 0 and isinstance(count, int) and (count > 0 or "Out msg nelems" in arguments)
    size = int(count) * width if known and isinstance(count, int) else -1
    splits = integers(arguments.get("In split size"))
    peer = arguments.get("Dst Rank" if kind == "send" else "Src Rank", -1)
    group = _metadata_group(arguments)
    return CommunicationCall(
        kind,
        size,
        dtype,
        group,
        "NCCL metadata",
        len(set(splits)) > 1,
        0,
        peer if isinstance(peer, int) else -1,
    )


def _metadata_group(arguments: Args) -> GroupRef:
    ranks = integers(arguments.get("Process Group Ranks"))
    size = arguments.get("Group size", 0)
    size = size if isinstance(size, int) else 0
    start, stride = arguments.get("Global rank start"), arguments.get("Global rank stride")
    if size > len(ranks) and isinstance(start, int) and isinstance(stride, int) and stride > 0:
        ranks = tuple(range(start, start + size * stride, stride))
    name = arguments.get("Process Group Name", arguments.get("Process Group ID", ""))
    return GroupRef(str(name), ranks if len(ranks) == size or not size else (), size or len(ranks))


def integers(value: object) -> tuple[int, ...]:
    """`"[0, 1]"` or a list; empty when anything else (or cut with dots) is in it."""
    parts = value if isinstance(value, list) else str(value or "").strip("[] ").split(",")
    try:
        return tuple(int(part) for part in parts if str(part).strip())
    except ValueError:
        return ()


def from_host_node(node: HostNode) -> CommunicationCall | None:
    """From `record_param_comms` of an execution trace: tensors, sequence, group, rank, name,
    splits, ..."""
    name = next((v for v in node.inputs if isinstance(v, str) and kind_of(v)), "")
    if not name or name == "wait":
        return None
    found = list(tensors(node.inputs[0])) if node.inputs else []
    size = sum(tensor[3] * tensor[4] for tensor in found) if found else -1
    splits = node.inputs[node.inputs.index(name) + 1] if node.inputs[-1] is not name else []
    dtype = _element_type(node.types[0]) if node.types else ""
    group = _node_group(node)
    uneven = isinstance(splits, list) and len(set(map(str, splits))) > 1
    return CommunicationCall(kind_of(name), size, dtype, group, "execution trace", uneven)


def _element_type(text: str) -> str:
    found = re.search(r"Tensor\(([^)]*)\)", text[:LONGEST_NAME])
    return found[1] if found else ""


def _node_group(node: HostNode) -> GroupRef:
    """The group among the inputs: a pair of name and description, or (until 1.0.2) an opaque
    number."""
    for value in node.inputs[1:4]:
        if (
            isinstance(value, list)
            and len(value) == 2
            and all(isinstance(part, str) for part in value)
        ):
            return GroupRef(value[0])
    opaque = node.inputs[2] if len(node.inputs) > 2 and isinstance(node.inputs[2], int) else 0
    return GroupRef(str(opaque)) if opaque else GroupRef()


def from_shapes(name: str, arguments: Args, source: str) -> CommunicationCall | None:
    """From an operator's name, `Input Dims` and `Input type`: the first input of `nccl:*`, the last
    of `c10d::*`."""
    kind = kind_of(name)
    if not kind:
        return None
    shapes, types = arguments.get("Input Dims") or [], arguments.get("Input type") or []
    sized = [(s, str(t)) for s, t in zip(shapes, types, strict=False) if s and width_of(str(t))]
    if not sized:
        return CommunicationCall(kind, -1, "", GroupRef(), source)
    shape, dtype = sized[0] if name.startswith("nccl:") else sized[-1]
    return CommunicationCall(kind, _elements(shape) * width_of(dtype), dtype, GroupRef(), source)


def _elements(shape: list[Any]) -> int:
    """Elements of a shape, or of a list of shapes together."""
    if shape and isinstance(shape[0], list):
        return sum(_elements(inner) for inner in shape)
    product = 1
    for length in shape:
        product *= int(length)
    return product


def from_annotation(name: str, arguments: Args) -> CommunicationCall | None:
    """A message from an annotation such as `nccl:send 0->1` or `nccl:recv 1<-0`; ranks are
    positions in the group."""
    found = re.fullmatch(r"nccl:(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})", name)
    shaped = from_shapes(name, arguments, "annotation") if found else None
    return replace(shaped, kind=found[1], peer=int(found[3])) if found and shaped else None
