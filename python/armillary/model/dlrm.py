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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from .. import old_words
from ..declared import Allowed, Within
from ..errors import InputError
from .files import Model, parse_family
from .gemm import Gemm
from .limits import Size
from .precision import BYTES, Precision

Kind = Literal["concat", "dot", "cross", "given"]
INTERACTIONS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of interaction."""

MOST_ROWS = 2**40
"""Rows of the largest table."""

MOST_TABLES = 2**16
"""Tables of one kind, their width, and lookups of a sample, at most."""

Flow = Literal["hoti", "neo"]
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

    kind: Kind
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
    flow: Flow
    """Training flow of its source."""
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


_Some = Annotated[int, Within(1, MOST_TABLES)]


@dataclass(frozen=True, slots=True)
class _Tables:
    rows: Annotated[int, Within(1, MOST_ROWS)]
    dim: _Some
    pooling: _Some = 1
    count: _Some = 1
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Plain:
    kind: Literal["concat", "dot"]


@dataclass(frozen=True, slots=True)
class _Cross:
    kind: Literal["cross"]
    rank: Size
    layers: Size


@dataclass(frozen=True, slots=True)
class _Given:
    kind: Literal["given"]
    out: Size


@dataclass(frozen=True, slots=True)
class _File:
    """Fields of a model file."""

    tables: Annotated[tuple[_Tables, ...], Within(1, MOST_TABLES), Allowed("a list of mappings")]
    dense_features: Size
    bottom: tuple[Size, ...]
    interaction: _Plain | _Cross | _Given
    top: tuple[Size, ...]
    bias: bool = True
    flow: Flow = "neo"
    local_batch: Size = 512
    precision: Precision = "fp32"
    gradient_precision: Precision | None = None
    table_precision: Precision | None = None


def parse(model: Model) -> Dlrm:
    """The recommendation model that a file describes. Raises `InputError` listing every problem."""
    today = replace(model, fields=old_words.keys_of_today("dlrm", model.fields))
    file = parse_family(today, "dlrm", _File)
    tables = tuple(_tables(file))
    bottom = _mlp("bottom", file.dense_features, file.bottom, file.bias)
    interaction = _interaction(model, file, tables, bottom[-1].outputs if bottom else 1)
    return Dlrm(
        model.name,
        tables,
        bottom,
        interaction,
        _mlp("top", interaction.outputs, file.top, file.bias),
        file.flow,
        file.local_batch,
        BYTES[file.precision],
        BYTES[file.gradient_precision or file.precision],
        BYTES[file.table_precision or file.precision],
    )


def _tables(file: _File) -> Iterator[EmbeddingTable]:
    many = 0
    for each in file.tables:
        for index in range(each.count):
            number = f"{each.name}{index if each.count > 1 else ''}" if each.name else f"t{many}"
            yield EmbeddingTable(number, each.rows, each.dim, each.pooling)
            many += 1


def _mlp(name: str, inputs: int, outputs: tuple[int, ...], bias: bool) -> tuple[Dense, ...]:
    pairs = zip((inputs, *outputs), outputs, strict=False)
    return tuple(Dense(f"{name}.{index}", *pair, bias) for index, pair in enumerate(pairs))


def _interaction(
    model: Model, file: _File, tables: tuple[EmbeddingTable, ...], bottom: int
) -> Interaction:
    said = file.interaction
    features, inputs = len(tables) + 1, bottom + sum(table.dim for table in tables)
    if said.kind in ("dot", "cross") and any(table.dim != bottom for table in tables):
        widths = ", ".join(str(dim) for dim in sorted({table.dim for table in tables}))
        message = f"{said.kind} needs tables as wide as the bottom output {bottom}, not {widths}"
        raise InputError([model.problem("interaction.kind", message, "concat, given")])
    outputs = bottom + features * (features - 1) // 2 if said.kind == "dot" else inputs
    outputs = said.out if isinstance(said, _Given) else outputs
    layers = _cross(inputs, said.rank, said.layers) if isinstance(said, _Cross) else ()
    return Interaction(said.kind, features, bottom, inputs, outputs, layers)


def _cross(inputs: int, rank: int, count: int) -> tuple[Dense, ...]:
    down = [Dense(f"cross.{index}.down", inputs, rank, bias=False) for index in range(count)]
    up = [Dense(f"cross.{index}.up", rank, inputs) for index in range(count)]
    return tuple(layer for pair in zip(down, up, strict=True) for layer in pair)
