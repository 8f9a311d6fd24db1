"""Parts of a capture: operations with the tensors that they read and write, saved tensors,
repeated blocks.

Data only. Not here: how they are recorded (`recorder.py`), what they add up to (`result.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "matmul", "grouped_matmul", "convolution", "attention", "scan", "gather", "elementwise"
]
"""Kinds of operations. `gather` reads or writes rows of a tensor that an index names."""


TensorRule = Literal["colwise", "rowwise", "vocabulary", "gathered"]
"""How tensor parallelism divides a parameter: by outputs, by inputs, by rows of the vocabulary, or
by outputs that are gathered at once."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How parallelism divides the parameters of a module. Those without a rule are replicated."""

    tensor: dict[str, TensorRule] = field(default_factory=dict)
    """The rule of each parameter that tensor parallelism divides, by name."""
    experts: tuple[str, ...] = ()
    """Names of parameters that hold one matrix or more for each expert, by their first dimension;
    expert parallelism divides them."""


ONCE = ("recurrent.backward",)
"""Names of backward passes of scans that compute nothing again."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """One tensor that an operation reads or writes."""

    memory: int
    """Number of the memory that it lies in. Views of one tensor have the same."""
    shape: tuple[int, ...]
    dtype: str
    """Name of its format, as PyTorch spells it: `bfloat16`."""
    bytes: int
    """Bytes of its elements. Elements that a broadcast repeats count once."""
    parameter: str = ""
    """Name of the parameter that it is, or empty."""
    strides: tuple[int, ...] = ()
    """Bytes of its memory from one place of each dimension to the next; 0 where a broadcast repeats
    them."""


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` matrix products of (`m` x `k`) and (`k` x `n`)."""

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Operation:
    """One kernel of a training step."""

    name: str
    """PyTorch's name without its namespace: `mm`. For a fused kernel the kernel's name, such as
    `attention` under a causal mask or `unmasked_attention`."""
    kind: Kind
    module: str
    """Path of the module that runs it forward, from the captured module; empty for itself."""
    backward: bool
    flops: int
    """Operations of matrix products, convolutions, attention and scans; 0 for other kinds."""
    bytes: int
    """Bytes that it reads and writes."""
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    product: Product | None = None
    """Sizes of a matrix product, or of one expert's where it is grouped."""
    saved_in: tuple[str, ...] = ()
    """Modules in which autograd kept a tensor after it, before the next operation."""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A tensor that autograd keeps from the forward pass for the backward pass."""

    memory: int
    module: str
    """Path of the module that saved it first."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Bytes of the memory that it keeps alive, which may be more than its own elements."""


@dataclass(frozen=True, slots=True)
class Block:
    """Modules that do the same, recorded once; or what is outside of all of them."""

    modules: tuple[str, ...]
    """Paths of the modules in the order of their calls; empty for what is outside."""
    operations: tuple[Operation, ...]
    saved: tuple[SavedTensor, ...]
    entering: int = 0
    """Bytes of the first tensor that enters it."""
    enters: int = -1
    """Number of the memory of that tensor."""

    @property
    def count(self) -> int:
        """Number of modules like it; 1 for what is outside."""
        return max(len(self.modules), 1)
