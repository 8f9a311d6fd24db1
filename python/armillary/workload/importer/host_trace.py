"""PyTorch execution traces: host operators with tensors and process groups, in every schema version
alike.

Here: nodes of schema 1.0.0 (`ExecutionGraphObserver`, whose tensors have no device) and 1.0.1
(fields on the node), and of 1.0.2 to 1.1.1 (`attrs`, `ctrl_deps`, values under `inputs`) as one
type. Not here: which Kineto operator a node is (`linking.py`). A tensor is
`[id, storage, offset, elements, width, device]`. Source: the execution trace observer of PyTorch
(`execution_trace_observer.cpp`), one file a process."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, Problem
from .reading import LONGEST_NAME, HostDocument, Recording

STEP = "ProfilerStep#"
_MOST_ELEMENTS = 2**50
VERSIONS = ("1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1")
"""Schema versions that were read and tested; what follows a dash (`-chakra.0.0.4`) does not matter
here."""


_NO_DEVICES = "1.0.0"
"""The version whose tensors are `[id, storage, offset, elements, width]`."""


@dataclass(slots=True)
class HostNode:
    """One operator. `rf_id` is PyTorch's record-function id, -1 where there is none; `parent` an
    id."""

    id: int
    name: str
    parent: int
    thread: int
    rf_id: int
    inputs: list[Any]
    types: list[str]
    shapes: list[Any]
    outputs: list[Any]
    results: list[Any]
    """Shapes of the outputs."""


@dataclass
class HostTrace:
    """One rank's execution trace, nodes by id (which is the order of their start)."""

    file: str
    schema: str
    pid: str
    nodes: list[HostNode]

    @property
    def version(self) -> str:
        """The schema version without its suffix."""
        return self.schema.partition("-")[0]


def host_trace(recording: Recording) -> HostTrace:
    """The nodes of a document. Raises `InputError` for an empty one and for nodes without id or
    name."""
    document = recording.document
    assert isinstance(document, HostDocument)
    wrong = [
        index for index, node in enumerate(document.nodes) if not ("id" in node and "name" in node)
    ]
    if wrong or not document.nodes:
        message = (
            f"{len(wrong)} of {len(document.nodes)} nodes have no id or no name"
            if wrong
            else "no nodes"
        )
        place = f"nodes[{wrong[0]}]" if wrong else "nodes"
        raise InputError([Problem(recording.file, place, message, f"schema {' '.join(VERSIONS)}")])
    nodes = sorted(_nodes(recording.file, document), key=lambda node: node.id)
    twice = [node.id for node, after in itertools.pairwise(nodes) if node.id == after.id]
    if twice:
        raise InputError(
            [
                Problem(
                    recording.file, f"node {twice[0]}", f"{len(twice)} ids come twice", "unique ids"
                )
            ]
        )
    return HostTrace(recording.file, document.schema, str(document.pid), nodes)


def _nodes(file: str, document: HostDocument) -> list[HostNode]:
    """Every node. Raises `InputError` for those whose fields are of the wrong kind."""
    nodes, problems = [], []
    for index, raw in enumerate(document.nodes):
        try:
            nodes.append(_node(_with_devices(raw) if document.schema == _NO_DEVICES else raw))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            known = f"nodes as in schema {' '.join(VERSIONS)}"
            problems.append(
                Problem(file, f"nodes[{index}]", f"a field is of the wrong kind: {error}", known)
            )
    if problems:
        raise InputError(problems)
    return nodes


def _with_devices(raw: dict[str, Any]) -> dict[str, Any]:
    """A node of schema 1.0.0 with a device, which is unknown, in each tensor. Types tell tensors
    from lists of five numbers."""
    found = dict(raw)
    for values, types in (("inputs", "input_types"), ("outputs", "output_types")):
        pairs = zip(raw.get(values) or [], raw.get(types) or [], strict=False)
        known = [_with_device(value) if "Tensor(" in kind else value for value, kind in pairs]
        found[values] = known + list(raw.get(values) or [])[len(known) :]
    return found


def _with_device(value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, list):
        return value
    if len(value) == 5 and all(isinstance(each, int) for each in value):
        return [*value, ""]
    return [_with_device(each) for each in value]


def _node(raw: dict[str, Any]) -> HostNode:
    inputs, outputs = raw.get("inputs", []), raw.get("outputs", [])
    if isinstance(inputs, dict):
        attributes = {entry.get("name"): entry.get("value") for entry in raw.get("attrs", [])}
    else:
        inputs = {
            "values": inputs,
            "types": raw.get("input_types", []),
            "shapes": raw.get("input_shapes", []),
        }
        outputs = {"values": outputs, "shapes": raw.get("output_shapes", [])}
        attributes = raw
    rf_id = attributes.get("rf_id")
    return HostNode(
        id=int(raw["id"]),
        name=str(raw["name"])[:LONGEST_NAME],
        parent=int(raw.get("ctrl_deps", raw.get("parent", 0)) or 0),
        thread=int(attributes.get("tid") or 0),
        rf_id=-1 if rf_id is None else int(rf_id),
        inputs=list(inputs.get("values") or []),
        types=list(inputs.get("types") or []),
        shapes=_shapes(inputs.get("shapes")),
        outputs=list(outputs.get("values") or []),
        results=_shapes(outputs.get("shapes")),
    )


def _shapes(value: Any) -> list[Any]:  # noqa: ANN401
    """Shapes of a node's tensors. Raises `ValueError` for a tensor that no device holds."""
    shapes = list(value or [])
    for shape in shapes:
        lengths = [each for each in shape if isinstance(each, int)] if type(shape) is list else []
        if math.prod(max(1, abs(each)) for each in lengths) >= _MOST_ELEMENTS:
            raise ValueError(f"a tensor of more than {_MOST_ELEMENTS:,} elements")
    return shapes


def tensors(value: Any) -> Iterator[list[Any]]:  # noqa: ANN401
    """Every tensor in a value, however deep in lists."""
    if isinstance(value, list):
        if (
            len(value) >= 6
            and isinstance(value[5], str)
            and all(isinstance(v, int) for v in value[:5])
        ):
            yield value
        else:
            for inner in value:
                yield from tensors(inner)


def process_groups(trace: HostTrace) -> list[dict[str, Any]]:
    """Groups that `## process_group:init ##` declares: `pg_name`, `ranks`, `group_size`."""
    for node in trace.nodes:
        if "process_group:init" in node.name and node.inputs:
            try:
                found = json.loads(str(node.inputs[0]))
            except (ValueError, RecursionError):
                return []
            return (
                [entry for entry in found if isinstance(entry, dict)]
                if isinstance(found, list)
                else []
            )
    return []


def steps(trace: HostTrace) -> dict[int, tuple[int, int]]:
    """`ProfilerStep#n` annotations as ranges of ids (ids count operators of all threads by
    start)."""
    marks = [
        (node.id, node.name.removeprefix(STEP))
        for node in trace.nodes
        if node.name.startswith(STEP)
    ]
    ends = [*(identity for identity, _ in marks[1:]), trace.nodes[-1].id + 1]
    return {
        int(number): (start, end)
        for (start, number), end in zip(marks, ends, strict=False)
        if re.fullmatch("[0-9]{1,18}", number)
    }


def threads(trace: HostTrace) -> dict[int, list[HostNode]]:
    """Operators by thread in the order of their start, without the nodes that stand for process and
    thread."""
    found: dict[int, list[HostNode]] = {}
    for node in trace.nodes:
        if not node.name.startswith("[pytorch|profiler|"):
            found.setdefault(node.thread, []).append(node)
    return found
