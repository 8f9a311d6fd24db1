"""Marks on the memories of a captured step, and the sizes that tensors have on a rank.

Not here: how marks go from tensor to tensor, and what ranks send (`captured_flow.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from ..capture.records import Buffer, Operation, Rules
from .parallelism import Parallelism


class Span(NamedTuple):
    """The places of a memory that tensor parallelism divides: `extent` of them, `stride` bytes
    apart, over `degree` ranks. `roots` are the parameters that the division comes from."""

    stride: int
    extent: int
    degree: int
    roots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fit:
    """A number of parts that the degree of tensor parallelism must divide."""

    root: str
    """The module or parameter that it is about."""
    parts: int
    shared: bool
    """Several ranks may hold the same part, as heads of keys and values."""

    def divides(self, tp: int) -> bool:
        """Whether `tp` ranks divide it."""
        return self.parts % tp == 0 or (self.shared and tp % self.parts == 0)


class Marks:
    """Marks on memories, as `captured_parallel.py` describes them."""

    def __init__(self, rules: Rules, par: Parallelism, degrees: Mapping[str, int]) -> None:
        self.par, self.degrees = par, degrees
        """Degrees of the roots that fewer than `tp` ranks divide."""
        self.experts = frozenset(rules.experts)
        whole = self.experts if par.expert_tp == 1 else frozenset[str]()
        every = rules.tensor if par.tp > 1 else {}
        self.rules = {name: rule for name, rule in every.items() if name not in whole}
        self.sp = par.tp if par.sp else 1
        """Ranks that sequence parallelism divides tokens by."""
        self.parameters: dict[str, Span] = {}
        """Divided parameters."""
        self.spans: dict[int, Span] = {}
        """Divided memories."""
        self.partial: set[int] = set()
        self.tokens: set[int] = set()
        self.sent: set[int] = set()
        self.weights: set[int] = set()
        """Parameters and their gradients."""
        self.expert_weights: set[int] = set()
        """Gradients of experts among them."""
        self.stays: set[int] = set()
        """Memories whose tokens are all there, and are kept for the backward pass."""
        self._parts: dict[str, int] = {}
        self._queries: set[str] = set()
        self._shared: set[str] = set()

    def fits(self) -> Iterable[Fit]:
        """Numbers that tp must divide."""
        for root, parts in self._parts.items():
            yield Fit(root, parts, root in self._shared and root not in self._queries)

    @property
    def load(self) -> Fraction:
        """Tokens of a rank's experts over an even share."""
        return Fraction(self.par.load)

    def divided(self, x: Buffer) -> int | None:
        """The dimension of a tensor that tensor parallelism divides."""
        span = self.spans.get(x.memory)
        if span is None:
            return None
        inside = [
            (stride, -at)
            for at, (size, stride) in enumerate(zip(x.shape, x.strides, strict=False))
            if 0 < stride < span.stride * span.extent and span.stride < stride * size
        ]
        return -max(inside)[1] if inside else None

    def divide(self, write: Buffer, at: int, span: Span) -> None:
        """Marks a result as divided along a dimension, as `span` is."""
        extent = write.shape[at]
        self.spans[write.memory] = Span(write.strides[at], extent, span.degree, span.roots)

    def leave(self, write: Buffer) -> None:
        """Forgets what a memory was, which gets a new tensor; one that is written in part stays."""
        if write.memory in self.spans and self.divided(write) is not None:
            return
        for marks in (self.partial, self.tokens, self.sent, self.weights):
            marks.discard(write.memory)
        self.spans.pop(write.memory, None)
        self.stays.discard(write.memory)

    def rule(self, x: Buffer, letters: str, second: bool) -> None:
        """Marks a parameter of a product by its rule."""
        wide = "n" if second else "m"
        letter = "k" if self.rules[x.parameter] == "rowwise" else wide
        if x.memory not in self.spans:
            self.span(x, letters.index(letter))

    def span(self, x: Buffer, at: int) -> None:
        """Marks a parameter as divided along a dimension."""
        if x.memory in self.spans:
            return
        name = x.parameter
        module = name.rpartition(".")[0]
        root = module if name.endswith((".weight", ".bias")) else name
        degree = self.degrees.get(root, self.par.tp)
        span = Span(x.strides[at], x.shape[at], degree, frozenset((root,)))
        self.spans[x.memory] = span
        self.parameters[name] = span
        if self.rules[name] != "vocabulary":
            self._parts[root] = math.gcd(self._parts.get(root, 0), x.shape[at])

    def note(self, each: Operation, x: Buffer, at: int) -> None:
        """Notes into how many parts the roots of a division can be cut."""
        roots = self.spans[x.memory].roots
        for root in roots & self._parts.keys():
            self._parts[root] = math.gcd(self._parts[root], x.shape[at])
        if each.kind == "attention" and not each.backward:
            (self._queries if x is each.reads[0] else self._shared).update(roots)

    def covers(self, each: Operation) -> bool:
        """Whether an operation reads what is of tokens."""
        return any(x.memory in self.tokens for x in each.reads)

    def scale(self, x: Buffer, region: bool) -> Fraction:
        """The part of a tensor that a rank has, with all of its tokens in a `region`."""
        memory = x.memory
        at = self.divided(x) if x.strides else None
        span = self.spans.get(memory)
        degree = span.degree if span is not None and (at is not None or not x.strides) else 1
        if memory in self.weights:
            local = x.parameter in self.experts or memory in self.expert_weights
            return Fraction(1, degree * (self.par.ep if local else 1))
        scale = Fraction(1, self.par.cp * degree)
        if memory in self.sent:
            scale *= self.load
        everywhere = region or memory in self.partial or memory in self.stays
        cut = memory in self.tokens and span is None and not everywhere
        return scale / self.sp if cut else scale

    def entering(self, size: int) -> int:
        """Bytes on a rank of hidden states of `size` bytes."""
        return -(-size // (self.par.cp * self.sp))

    def local(self, x: Buffer, region: bool) -> int:
        """Bytes of a tensor on a rank, with all of its tokens in a `region`."""
        return math.ceil(x.bytes * self.scale(x, region))
