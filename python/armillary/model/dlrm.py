"""Parts of a deep learning recommendation model: tables, bottom MLP, interaction, top MLP.

Not here: how tables are shared out (`sharding`), the training flows (`dlrm`), the presets
(`models/dlrm-*.yml`).

Model (Naumov et al., 2019; Wang et al., DCN V2, 2021): with `T` tables of width `d` and `F = T + 1`
features,

             arithmetic                                 elements that the top MLP reads
    concat   none                                       bottom output + all table widths
    dot      F x F dot products of width d              d + F (F - 1) / 2
    cross    layers x (F d -> rank -> F d), with bias   F d
    given    not stated; counted as memory traffic      as the file says
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import old_words
from .fields import Fields, require_family
from .files import Model
from .gemm import Gemm
from .precision import BYTES

INTERACTIONS = ("concat", "dot", "cross", "given")
"""Kinds of interaction."""

MOST_ROWS = 2**40
"""Rows of the largest table."""

MOST_TABLES = 2**16
"""Tables of one kind, their width, and lookups of a sample, at most."""

FLOWS = ("hoti", "neo")
"""Training flows: inputs where they are needed, or distributed by all-to-all."""


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """An embedding table of `rows` x `dim` elements; a sample looks up `pooling` rows on average
    and adds them."""

    name: str
    rows: int
    dim: int
    pooling: int


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer."""

    name: str
    inputs: int
    outputs: int
    bias: bool = True

    @property
    def parameters(self) -> int:
        """Weights and bias."""
        return self.inputs * self.outputs + self.outputs * int(self.bias)

    def gemm(self, batch: int) -> Gemm:
        """The forward pass of `batch` samples."""
        return Gemm(batch, self.outputs, self.inputs)


@dataclass(frozen=True, slots=True)
class Interaction:
    """How pooled embeddings and the bottom MLP's output meet."""

    kind: str
    features: int
    """Tables and the bottom output."""
    dim: int
    """Width of a feature for `dot` and `cross`."""
    inputs: int
    """Elements read, a sample."""
    outputs: int
    """Elements of the top MLP's input, a sample."""
    layers: tuple[Dense, ...] = ()
    """Matrices of `cross`: two for each of its layers."""

    def gemm(self, batch: int) -> Gemm | None:
        """The dot products of `batch` samples."""
        return Gemm(self.features, self.features, self.dim, batch) if self.kind == "dot" else None


@dataclass(frozen=True, slots=True)
class Dlrm:
    """A recommendation model and the widths and batch its source gives, all in bytes and
    samples."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    bottom: tuple[Dense, ...]
    interaction: Interaction
    top: tuple[Dense, ...]
    flow: str
    """Training flow of its source: one of `FLOWS`."""
    local_batch: int
    width: int
    gradient_width: int
    embedding_width: int

    @property
    def dense(self) -> tuple[Dense, ...]:
        """Every fully connected layer, in the order they run forward."""
        return self.bottom + self.interaction.layers + self.top

    @property
    def dense_parameters(self) -> int:
        """Parameters outside the tables."""
        return sum(layer.parameters for layer in self.dense)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.dense_parameters + sum(table.rows * table.dim for table in self.tables)

    @property
    def operations(self) -> int:
        """Floating-point operations of the matrices, forward, one sample."""
        dots = self.interaction.gemm(1)
        return sum(layer.gemm(1).operations for layer in self.dense) + (
            dots.operations if dots else 0
        )


def parse(model: Model) -> Dlrm:
    """The recommendation model that a file describes. Raises `InputError` listing every problem."""
    require_family(model, "dlrm")
    top = Fields(old_words.keys_of_today("dlrm", model.fields), model.file or model.name)
    tables = _tables(top)
    bias = top.flag("bias", True)
    bottom = _mlp("bottom", top.whole("dense_features"), top.wholes("bottom"), bias)
    interaction = _interaction(top, tables, bottom[-1].outputs if bottom else 1)
    over = _mlp("top", interaction.outputs, top.wholes("top"), bias)
    widths = _widths(top)
    flow = top.text("flow", "neo", FLOWS)
    result = Dlrm(
        model.name, tables, bottom, interaction, over, flow, top.whole("local_batch", 512), *widths
    )
    top.finish()
    return result


def _widths(top: Fields) -> tuple[int, int, int]:
    """Bytes of a number of the MLPs, of an all-reduced gradient, and in a table."""
    dense = top.text("precision", "fp32", tuple(BYTES))
    gradient, table = (
        top.text(f"{part}_precision", dense or "fp32", tuple(BYTES))
        for part in ("gradient", "table")
    )
    return BYTES.get(dense, 0), BYTES.get(gradient, 0), BYTES.get(table, 0)


def _tables(top: Fields) -> tuple[EmbeddingTable, ...]:
    tables: list[EmbeddingTable] = []
    for entry in top.entries("tables"):
        name = entry.text("name", "")
        count, rows = entry.whole("count", 1, most=MOST_TABLES), entry.whole("rows", most=MOST_ROWS)
        dim, pooling = (
            entry.whole("dim", most=MOST_TABLES),
            entry.whole("pooling", 1, most=MOST_TABLES),
        )
        for index in range(count):
            number = f"{name}{index if count > 1 else ''}" if name else f"t{len(tables)}"
            tables.append(EmbeddingTable(number, rows, dim, pooling))
        entry.done()
    return tuple(tables)


def _mlp(name: str, inputs: int, outputs: tuple[int, ...], bias: bool) -> tuple[Dense, ...]:
    pairs = zip((inputs, *outputs), outputs, strict=False)
    return tuple(Dense(f"{name}.{index}", *pair, bias) for index, pair in enumerate(pairs))


def _interaction(top: Fields, tables: tuple[EmbeddingTable, ...], bottom: int) -> Interaction:
    field = top.inner("interaction")
    kind = field.text("kind", allowed=INTERACTIONS)
    features, inputs = len(tables) + 1, bottom + sum(table.dim for table in tables)
    if kind in ("dot", "cross") and any(table.dim != bottom for table in tables):
        widths = ", ".join(str(dim) for dim in sorted({table.dim for table in tables}))
        field.fault(
            "kind",
            f"{kind} needs tables as wide as the bottom output {bottom}, not {widths}",
            "concat, given",
        )
    outputs, layers = inputs, tuple[Dense, ...]()
    if kind == "dot":
        outputs = bottom + features * (features - 1) // 2
    elif kind == "cross":
        layers = _cross(inputs, field.whole("rank"), field.whole("layers"))
    elif kind == "given":
        outputs = field.whole("out")
    field.done()
    return Interaction(kind, features, bottom, inputs, outputs, layers)


def _cross(inputs: int, rank: int, count: int) -> tuple[Dense, ...]:
    down = [Dense(f"cross.{index}.down", inputs, rank, bias=False) for index in range(count)]
    up = [Dense(f"cross.{index}.up", rank, inputs) for index in range(count)]
    return tuple(layer for pair in zip(down, up, strict=True) for layer in pair)
