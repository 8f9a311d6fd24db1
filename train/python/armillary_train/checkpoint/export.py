"""Checkpoints as plain files: tables and dense parameters for safetensors, dense parts for ONNX.

Here: the files. Not here: what a checkpoint contains (`content.py`). Rows are copied some at a
time, so that tables may be larger than memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary import files

from ..net.dense import places
from ..tensor_files import Spec, Writer
from .content import Content
from .manifest import Stored
from .snapshot import PIECE

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLES, DENSE, ABOUT, GRAPH = "tables.safetensors", "dense.safetensors", "model.json", "dense.onnx"
"""Names of the files."""

OPSET = 17
"""Version of ONNX's operators."""


def export(content: Content, output: str, progress: Callable[[float], None]) -> list[str]:
    """Writes a checkpoint's tables, dense parameters and settings into a folder, and the dense
    parts as ONNX if that library is there. Returns the names of the files. `progress` gets the
    share that is done. Raises `InputError`."""
    with files.directory(output) as folder:
        _tables(content, folder / TABLES, progress)
        _dense(content, folder / DENSE)
        (folder / ABOUT).write_text(json.dumps(about(content), indent=1), encoding="utf-8")
        names = [TABLES, DENSE, ABOUT]
        if has_onnx():
            (folder / GRAPH).write_bytes(_graph(content))
            names.append(GRAPH)
    return names


def about(content: Content) -> dict[str, Any]:
    """Description of a checkpoint: step, tables, settings."""
    last = content.last
    return {
        "step": last.step,
        "samples": last.progress["samples"],
        "interaction": last.progress["interaction"],
        "evaluations": last.progress["evaluations"],
        "settings": last.settings,
        "tables": [
            {"name": each.name, "rows": each.rows, "dim": each.dim, "type": each.dtype}
            for each in last.tables
        ],
    }


def has_onnx() -> bool:
    """Whether the library for ONNX is installed."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        return False
    return True


def _tables(content: Content, path: Path, progress: Callable[[float], None]) -> None:
    """All tables and their state, as `NAME.weight` and the like."""
    specs, whole = [], 0
    for table, part in _parts(content):
        width = table.width(part)
        shape = (table.rows,) if width is None else (table.rows, width)
        specs.append(
            Spec(f"{table.name}.{part}", table.dtype if part == "weight" else "F32", shape)
        )
        whole += specs[-1].bytes
    writer, done = Writer(path, specs, {"format": "pt"}), 0
    try:
        for table, part in _parts(content):
            step = max(1, PIECE // (4 * table.dim))
            for first in range(0, table.rows, step):
                rows = range(first, min(table.rows, first + step))
                values = content.rows(table.name, part, rows, range(table.dim))
                writer.write(f"{table.name}.{part}", values)
                done += values.nbytes
                progress(done / whole)
        writer.end()
    except OSError:
        writer.abandon()
        raise


def _parts(content: Content) -> Iterator[tuple[Stored, str]]:
    for table in content.last.tables:
        for part in ("weight", *table.state):
            yield table, part


def _dense(content: Content, path: Path) -> None:
    """Dense parameters by their names in the model, and their optimizer's state."""
    found = {
        f"{prefix}{key}": (content.kinds(given)[key], values)
        for given, prefix in (("dense.", ""), ("dense_optimizer.", "optimizer."))
        for key, values in content.tensors(given).items()
    }
    specs = [Spec(key, kind, values.shape) for key, (kind, values) in found.items()]
    writer = Writer(path, specs, {"format": "pt"})
    try:
        for key, (_, values) in found.items():
            writer.write(key, values)
        writer.end()
    except OSError:
        writer.abandon()
        raise


def _graph(content: Content) -> bytes:
    """The dense parts as a model of ONNX: `dense` [batch, counts] and `pooled` [batch, sum of
    widths] to `logits` [batch], in float32. Exporters of torch don't know the operators of oneDNN
    that the layers use; their graph is short enough to be written down."""
    from onnx import TensorProto, checker, helper, numpy_helper

    weights = content.tensors("dense.")
    made = _Graph(helper, numpy_helper, weights)
    low = made.mlp("bottom", "dense", last=True)
    kind = content.last.progress["interaction"]
    joined = made.node("Concat", [low, "pooled"], axis=1)
    count = weights["top.layers.0.weight"].shape[1]
    if kind == "dot":
        dim = weights[f"bottom.layers.{_count(weights, 'bottom') - 1}.weight"].shape[0]
        features = round((1 + (1 + 8 * (count - dim)) ** 0.5) / 2)
        cubes = made.node("Reshape", [joined, made.constant("cube", np.array([0, -1, dim]))])
        turned = made.node("Transpose", [cubes], perm=[0, 2, 1])
        products = made.node("MatMul", [cubes, turned])
        flat = made.node("Reshape", [products, made.constant("flat", np.array([0, -1]))])
        lower = made.constant("pairs", places(features)[0].numpy())
        met = made.node("Concat", [low, made.node("Gather", [flat, lower], axis=1)], axis=1)
    elif kind == "cross":
        met = made.cross(joined)
    else:
        met = joined
    top = made.mlp("top", met, last=False)
    made.node("Squeeze", [top, made.constant("last", np.array([1]))], ["logits"])
    inputs = {"dense": weights["bottom.layers.0.weight"].shape[1], "pooled": "widths"}
    graph = helper.make_graph(
        made.nodes,
        "dense",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
            for name, size in inputs.items()
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch"])],
        made.constants,
    )
    model = helper.make_model(
        graph,
        producer_name="armillary",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    checker.check_model(model)
    found: bytes = model.SerializeToString(deterministic=True)
    return found


def _count(weights: dict[str, NDArray[Any]], name: str) -> int:
    return sum(key.startswith(f"{name}.") and key.endswith(".weight") for key in weights)


class _Graph:
    """Nodes and constants of a graph of ONNX."""

    def __init__(self, helper: Any, arrays: Any, weights: dict[str, NDArray[Any]]) -> None:  # noqa: ANN401 - modules
        self._helper, self._arrays, self._weights = helper, arrays, weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: set[str] = set()

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """A constant by its name."""
        if name not in self._known:
            self._known.add(name)
            self.constants.append(self._arrays.from_array(np.ascontiguousarray(values), name))
        return name

    def node(
        self, kind: str, inputs: list[str], outputs: list[str] | None = None, **given: object
    ) -> str:
        """The name of what an operator gives."""
        out = (outputs or [f"{kind.lower()}-{len(self.nodes)}"])[0]
        self.nodes.append(self._helper.make_node(kind, inputs, [out], **given))
        return out

    def layer(self, name: str, values: str) -> str:
        """A fully connected layer."""
        inputs = [values, self.constant(f"{name}.weight", self._weights[f"{name}.weight"])]
        if f"{name}.bias" in self._weights:
            inputs.append(self.constant(f"{name}.bias", self._weights[f"{name}.bias"]))
        return self.node("Gemm", inputs, transB=1)

    def mlp(self, name: str, values: str, *, last: bool) -> str:
        """Layers with ReLU between them; after the last one too, if `last`."""
        count = _count(self._weights, name)
        for number in range(count):
            values = self.layer(f"{name}.layers.{number}", values)
            if last or number + 1 < count:
                values = self.node("Relu", [values])
        return values

    def cross(self, first: str) -> str:
        """Cross layers of low rank."""
        values = first
        for number in range(_count(self._weights, "cross.down")):
            met = self.layer(f"cross.up.{number}", self.layer(f"cross.down.{number}", values))
            values = self.node("Add", [self.node("Mul", [first, met]), values])
        return values
