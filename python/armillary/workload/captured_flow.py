"""The flow of divisions through a captured step: each operation with its sizes on a rank, and what
ranks send before and after it.

Not here: what marks mean (`captured_parallel.py`), sizes by marks (`captured_marks.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from ..capture.records import Buffer, Operation, Product, Rules, SavedTensor
from .captured_marks import Marks, Span
from .parallelism import Parallelism
from .script import CollectiveStep, KernelStep, Start, Step, Wait

REDUCES = "reduce"
"""End of the names of reductions of partial sums in forward passes."""
_SUMS = {"add", "add_", "sub", "sub_"}
"""Operators that give a partial sum of partial sums."""
_ALONG = {
    "_softmax",
    "_fused_rms_norm",
    "cumsum",
    "logsumexp",
    "native_layer_norm",
    "sort",
    "topk",
}
"""Operators that need all places of the last dimension."""
_MIXES = ("attention", "scan", "convolution")
"""Kinds of operations between tokens."""
_WITH_BIAS = {"addmm", "baddbmm"}
_TARGET = "nll_loss_forward"
_LOSS_BYTES = 12
"""Bytes of a token's loss that are reduced: largest logit, sum, the target's logit."""


class Flow(Marks):
    """Operations of a step in their order."""

    def __init__(self, rules: Rules, par: Parallelism, degrees: Mapping[str, int]) -> None:
        super().__init__(rules, par, degrees)
        self.replicated: set[str] = set()
        """Parameters of products without a rule."""
        self.heads: set[int] = set()
        """Heads of attention on a rank."""
        self.mixed: dict[str, str] = {}
        """Operations other than attention between tokens, with their modules."""
        self._known: set[int] = set()
        self._empty: set[int] = set()
        """Memories that the operation at work writes for the first time, and is said to read."""
        self._sizes: dict[int, int] = {}
        """Bytes of each memory."""
        self._makers: dict[int, Operation] = {}
        """The operation that wrote each memory first."""
        self._local_experts = 1
        self._tables: set[tuple[str, tuple[int, ...]]] = set()
        """Modules with tables of experts, and the shapes of these."""
        self._inputs: dict[str, Buffer] = {}
        """The input of each module with a matrix that is divided by columns."""
        self._held: list[Operation] = []
        """Gradients of parameters that are computed while the next collective runs."""
        self._waits: list[Wait] = []
        """Collectives that these gradients wait for."""
        self._gathered: dict[int, Step] = {}
        """Gathers of the pass at work, by memory."""
        self._next: dict[int, Operation] = {}
        """The first operation of the pass that reads each memory."""
        self._made_by: dict[int, Operation] = {}
        """The first operation of the pass that writes each memory."""
        self._out: list[Operation | Step] = []
        self._path = ""

    def run(
        self, operations: Sequence[Operation], path: str, needed: set[int]
    ) -> list[Operation | Step]:
        """One pass of a block, which leaves no partial sum that is `needed` after it."""
        self._out, self._path, self._gathered = [], path, {}
        self._next, self._made_by = {}, {}
        for each in reversed(operations):
            self._next |= {x.memory: each for x in each.reads}
            self._made_by |= {x.memory: each for x in each.writes}
        for each in operations:
            self._operation(each)
        for memory in sorted(self.partial & needed):
            self._reduce(memory)
        self._out += [*self._waits, *self._held]
        self._waits, self._held = [], []
        return self._out

    def kept(self, saved: SavedTensor) -> SavedTensor:
        """A tensor that autograd keeps, on the rank."""
        buffer = Buffer(saved.memory, saved.shape, saved.dtype, saved.bytes)
        return replace(saved, bytes=self.local(buffer, saved.memory in self.stays))

    def _operation(self, each: Operation) -> None:
        written = {x.memory for x in each.writes}
        self._empty = {x.memory for x in each.reads if x.memory in written} - self._known
        for buffer in (*each.reads, *each.writes):
            self._meet(each, buffer, written)
        if each.name.startswith("new_") or each.name.endswith("_like"):
            self._like(each)
            return
        if each.product is None:
            self._combine(each)
        self._sum(each)
        if each.product is not None:
            self._product(each)
        elif each.name == "embedding":
            self._embedding(each)
        elif each.name == "embedding_dense_backward":
            self._embedding_gradient(each)
        else:
            self._other(each)

    def _meet(self, each: Operation, buffer: Buffer, written: set[int]) -> None:
        """Notes a tensor. What no operation wrote is an input where it has numbers with a point."""
        memory = buffer.memory
        self._sizes[memory] = max(self._sizes.get(memory, 0), buffer.bytes)
        if memory in self._known:
            return
        self._known.add(memory)
        self._makers[memory] = each
        if buffer.parameter:
            self.weights.add(memory)
        elif _has_point(buffer) and buffer.shape and memory not in written:
            self.tokens.add(memory)

    def _like(self, each: Operation) -> None:
        """An operator that reads no values: the result is divided as a tensor of its shape."""
        read, write = each.reads[0], each.writes[0]
        self.leave(write)
        at = self.divided(read)
        same = read.shape == write.shape
        if at is not None and same:
            self.divide(write, at, self.spans[read.memory])
        for marks in (self.tokens, self.weights, *((self.sent,) if same else ())):
            if read.memory in marks:
                marks.add(write.memory)
        self._add(each, region=at is not None)

    def _product(self, each: Operation) -> None:
        """A matrix product. Its sizes m, n, k and batch are divided where its operands are."""
        *others, a, b = each.reads[: 3 if each.name in _WITH_BIAS else 2]
        letters = _letters(each, a, b)
        weight = next((x for x in (b, a) if x.parameter), None)
        rule = self.rules.get(weight.parameter) if weight is not None else None
        grouped = each.kind == "grouped_matmul"
        gradient = each.backward and weight is None and (grouped or len(a.shape) == 2)
        arrived = self._dispatch(each, (a, b))
        if weight is not None and rule:
            self.rule(weight, letters[0 if weight is a else 1], weight is b)
            for bias in others:
                if self.rules.get(bias.parameter, "rowwise") != "rowwise":
                    self.span(bias, len(bias.shape) - 1)
        elif weight is not None and self.par.tp > 1 and weight.parameter not in self.experts:
            self.replicated.add(weight.parameter)
        region = rule is not None or any(self.divided(x) is not None for x in (a, b))
        mixes = not (weight or gradient) and self.covers(each)
        if mixes:
            region = self._mixes(each, region)
        later = region and gradient and self._columns(each)
        if region:
            for x in (a, b):
                self._gather(each, x, later)
        if rule not in (None, "rowwise"):
            self._enters(each, a if weight is b else b)
        for x in arrived:
            self._sort(each, x)
        sent = grouped and any(x.memory in self.sent or x.parameter in self.experts for x in (a, b))
        cut = self._cut(each, (a, b), letters)
        self._made(each, cut, letters[2], gradient, sent)
        if mixes:
            self.tokens.discard(each.writes[0].memory)
        along = "k" if gradient else "n" if weight is a else "m"
        (self._held if later else self._out).append(self._sized(each, cut, along, region, sent))
        if rule == "gathered" and not each.backward:
            self._whole(each, each.writes[0])

    def _enters(self, each: Operation, x: Buffer) -> None:
        """Notes the input of a matrix that is divided by columns. The backward pass gathers it
        again while the gradient of the input is computed."""
        if not each.backward:
            self._inputs[each.module] = x
        elif each.module in self._inputs:
            self._gather(each, self._inputs[each.module], True)

    def _columns(self, each: Operation) -> bool:
        """Whether the matrix of the module at work is divided by its outputs."""
        return self.rules.get(f"{each.module}.weight", "rowwise") != "rowwise"

    def _made(
        self, each: Operation, cut: Mapping[str, Span], letters: str, gradient: bool, sent: bool
    ) -> None:
        """Marks the result of a product."""
        write = each.writes[0]
        self.leave(write)
        for letter, span in cut.items():
            if letter in letters:
                self.divide(write, letters.index(letter), span)
            else:
                self.partial.add(write.memory)
        if gradient:
            self.weights.add(write.memory)
            if sent:
                self.expert_weights.add(write.memory)
            return
        if self.covers(each):
            self.tokens.add(write.memory)
        if sent:
            self.sent.add(write.memory)

    def _embedding(self, each: Operation) -> None:
        """Rows of a table. Divided by rows it gives a partial sum: other ranks have other rows."""
        table, write = each.reads[0], each.writes[0]
        rule = self.rules.get(table.parameter)
        self.leave(write)
        self.tokens.add(write.memory)
        if rule == "vocabulary":
            self.span(table, 0)
            self.partial.add(write.memory)
        elif rule is not None:
            self.span(table, len(table.shape) - 1)
            self.divide(write, len(write.shape) - 1, self.spans[table.memory])
        self._add(each, region=rule is not None)
        if rule in ("gathered", "colwise"):
            self._whole(each, write)

    def _embedding_gradient(self, each: Operation) -> None:
        read, write = each.reads[0], each.writes[0]
        span = self.parameters.get(f"{each.module}.weight")
        if span is not None:
            self._gather(each, read, False)
        self.leave(write)
        self.weights.add(write.memory)
        if span is not None:
            self.divide(write, 0, span)
        self._add(each, region=span is not None)

    def _other(self, each: Operation) -> None:
        """Attention, scans and what passes over tensors."""
        reads = [x for x in each.reads if x.memory not in self._empty]
        for x in reads:
            if self.rules.get(x.parameter) == "colwise":
                self.span(x, len(x.shape) - 1 if x.parameter in self.experts else 0)
            if each.name in _ALONG and self.divided(x) == len(x.shape) - 1:
                self._whole(each, x)
        divided = [(x, at) for x in reads if (at := self.divided(x)) is not None]
        for x, at in divided:
            self.note(each, x, at)
        mixes = each.kind in _MIXES and any(x.memory in self.tokens for x in reads)
        region = self._mixes(each, bool(divided)) if mixes else bool(divided)
        if region:
            for x in reads:
                self._gather(each, x, False)
        if divided and each.name == _TARGET:
            rows = -(-math.prod(each.reads[0].shape[:-1]) // self.par.cp)
            self._call(each, "reduce_loss", "all_reduce", _LOSS_BYTES * rows)
            for write in each.writes:
                self.leave(write)
        else:
            self._carry(each, reads, divided)
        if region and not divided:
            for write in each.writes:
                self.tokens.discard(write.memory)
        self._add(each, region)

    def _mixes(self, each: Operation, divided: bool) -> bool:
        """Notes an operation between tokens, which needs all tokens of sequence parallelism.
        Context parallelism knows how attention gets them. Whether all tokens are there."""
        if each.kind == "attention":
            if not each.backward:
                for x in each.reads[:2]:
                    at, span = self.divided(x), self.spans.get(x.memory)
                    degree = span.degree if span is not None and at is not None else 1
                    self.heads.add(x.shape[-3] // degree)
        elif not (self.par.tp == 1 and self.par.cp == 1):
            self.mixed.setdefault(each.name, each.module)
        return divided or self.sp > 1

    def _carry(
        self, each: Operation, reads: Sequence[Buffer], divided: Sequence[tuple[Buffer, int]]
    ) -> None:
        """Gives results the marks of what is read."""
        sums = each.name in _SUMS and any(x.memory in self.partial for x in reads)
        tokens = any(x.memory in self.tokens for x in reads) or bool(each.reads and not reads)
        sent = any(x.memory in self.sent or x.parameter in self.experts for x in reads)
        given = [x for x in reads if _has_point(x)]
        weights = bool(given) and all(x.memory in self.weights for x in given)
        table = self._is_of_table(each)
        marks = [
            (self.partial, sums),
            (self.tokens, tokens and not table),
            (self.sent, sent and not table),
            (self.weights, table or (weights and not tokens)),
            (self.expert_weights, table),
        ]
        for write in each.writes:
            self.leave(write)
            like = [pair for pair in divided if pair[0].shape == write.shape] or divided
            if like:
                x, at = max(like, key=lambda pair: self.spans[pair[0].memory].degree)
                place = _place(x.shape, write.shape, at)
                if place is None:
                    self.partial.add(write.memory)
                else:
                    self.divide(write, place, self.spans[x.memory])
            for memories, marked in marks:
                if marked:
                    memories.add(write.memory)

    def _sum(self, each: Operation) -> None:
        """Reduces the partial sums that an operation reads, unless it adds them up."""
        given = [x for x in each.reads if _has_point(x)]
        whole = [x for x in given if x.memory not in self.partial]
        if each.name in _SUMS and (not whole or self._goes_on(each)):
            return
        for x in each.reads:
            if x.memory in self.partial:
                self._reduce(x.memory)

    def _goes_on(self, each: Operation) -> bool:
        """Whether a sum of gradients, not all of them partial, is added to another product. It is
        reduced after that, once."""
        memory = each.writes[0].memory
        after = self._next.get(memory)
        if not each.backward or after is None or after.name not in _SUMS:
            return False
        others = [self._made_by.get(x.memory) for x in after.reads if x.memory != memory]
        return any(
            other is not None and other.product is not None and self._columns(other)
            for other in others
        )

    def _reduce(self, memory: int) -> None:
        """Adds up a partial sum, while gradients of parameters that are held are computed."""
        each = self._makers[memory]
        self.partial.discard(memory)
        self.spans.pop(memory, None)
        self.tokens.add(memory)
        kind = "reduce_scatter" if self.sp > 1 else "all_reduce"
        scale = Fraction(1, self.par.cp) * (self.load if memory in self.sent else 1)
        size = math.ceil(self._sizes[memory] * scale)
        if not self._held:
            self._call(each, REDUCES, kind, size)
            return
        call = CollectiveStep(self._named(each, REDUCES), kind, size, "tp")
        self._out += [Start(*call), *self._waits, *self._held, Wait(call.name)]
        self._waits, self._held = [], []

    def _gather(self, each: Operation, x: Buffer, later: bool) -> None:
        """Brings all tokens of a tensor that is divided by tokens; `later` while others run. Those
        that experts take are kept."""
        memory = x.memory
        there = self.sp == 1 or memory in self.stays
        whole = memory in self.spans or memory in self.weights or memory in self.partial
        if there or whole or memory not in self.tokens or not _has_point(x):
            return
        known = self._gathered.get(memory)
        if isinstance(known, CollectiveStep):
            # The same call again, for where the first reader is not computed again.
            self._out.append(known)
        if known is not None:
            return
        size = self.local(x, False)
        name = self._named(each, "regather" if later else "gather")
        kind = Start if later else CollectiveStep
        call = kind(name, "all_gather", size, "tp")
        self._out.append(call)
        if later:
            self._waits.append(Wait(name))
        if each.kind == "grouped_matmul":
            self.stays.add(memory)
        else:
            self._gathered[memory] = call

    def _whole(self, each: Operation, x: Buffer) -> None:
        """Gathers the parts of a divided tensor."""
        size = self.local(x, True)
        span = self.spans.pop(x.memory)
        self.tokens.discard(x.memory)
        if span.degree > 1:
            self._call(each, "gather_parts", "all_gather", size)

    def _dispatch(self, each: Operation, operands: Sequence[Buffer]) -> list[Buffer]:
        """Sends tokens to the experts of a grouped product; what was sent."""
        ours = each.kind == "grouped_matmul" and any(
            x.parameter in self.experts or x.memory in self.sent for x in operands
        )
        found = [x for x in operands if ours and not x.parameter and x.memory not in self.sent]
        if found and each.product is not None and self.par.ep > 1:
            self._local_experts = -(-each.product.batch // self.par.ep)
        for x in found:
            self.sent.add(x.memory)
            self._call(each, "dispatch", "all_to_all", self.local(x, False), "ep")
        return found

    def _combine(self, each: Operation) -> None:
        """Brings the rows of experts back to where the tokens are."""
        there = [x for x in each.reads if x.memory in self.sent]
        here = [
            x
            for x in each.reads
            if x.memory not in self.sent and _has_point(x) and x.memory in self.tokens
        ]
        of_table = self._is_of_table(each)
        if not there or of_table or not (here or each.kind == "gather"):
            return
        for x in there:
            memory = x.memory
            if memory not in self.sent:
                continue
            self._sort(each, x)
            if memory in self.partial:
                self._reduce(memory)
            self._call(each, "combine", "all_to_all", self.local(x, False), "ep")
            self.sent.discard(memory)

    def _is_of_table(self, each: Operation) -> bool:
        """Whether an operation adds up gradients of a table of experts, such as their biases."""
        table = each.module, each.writes[0].shape
        if any(x.parameter in self.experts for x in each.reads):
            self._tables |= {(each.module, x.shape) for x in each.reads if x.parameter}
        return each.backward and each.kind == "gather" and table in self._tables

    def _sort(self, each: Operation, x: Buffer) -> None:
        """Rows come by rank and are wanted by expert, and the other way: a copy."""
        if self._local_experts == 1:
            return
        moved = 2 * self.local(x, x.memory in self.stays)
        self._out.append(KernelStep(self._named(each, "sort"), "elementwise", 0, moved))

    def _cut(
        self, each: Operation, operands: Sequence[Buffer], letters: Sequence[str]
    ) -> dict[str, Span]:
        """Sizes of a product that are divided. An operand that only one side divides along k is
        gathered, unless it is a parameter, whose part then takes its part of the other side."""
        found: dict[str, list[tuple[Buffer, Span]]] = {}
        for x, names in zip(operands, letters, strict=False):
            at = self.divided(x)
            if at is not None:
                self.note(each, x, at)
                found.setdefault(names[at], []).append((x, self.spans[x.memory]))
        alone = found.get("k", [])
        if len(alone) == 1 and not alone[0][0].parameter:
            self._whole(each, alone[0][0])
            del found["k"]
        if len(found) > 1:
            # Each side is divided along its own size: the second one is gathered.
            for letter, pairs in list(found.items())[1:]:
                for x, _ in pairs:
                    if not x.parameter:
                        self._whole(each, x)
                        found.pop(letter, None)
        return {
            letter: max((span for _, span in pairs), key=lambda span: span.degree)
            for letter, pairs in found.items()
        }

    def _shared_part(self, each: Operation, x: Buffer) -> Buffer:
        """A whole tensor that is read next to a divided one of its shape is read in part."""
        for other in each.reads:
            at = self.divided(other)
            if at is not None and other.shape == x.shape and x.memory not in self.weights:
                return replace(x, bytes=math.ceil(x.bytes / self.spans[other.memory].degree))
        return x

    def _add(self, each: Operation, region: bool) -> None:
        """Adds an operation other than a product, with its sizes on the rank."""
        reads, writes = (
            tuple(replace(x, bytes=self.local(x, region)) for x in buffers)
            for buffers in (each.reads, each.writes)
        )
        if region:
            reads = tuple(
                local
                if self.divided(x) is not None
                else replace(x, bytes=self.local(self._shared_part(each, x), region))
                for x, local in zip(each.reads, reads, strict=True)
            )
        moved = sum(x.bytes for x in (*reads, *writes))
        if each.kind == "gather":
            before, after = (sum(x.bytes for x in given) for given in (each.writes, writes))
            if each.name == "embedding_dense_backward":
                moved = after + math.ceil((each.bytes - before) / self.par.cp)
            else:
                moved = math.ceil(each.bytes * Fraction(after, before)) if before else each.bytes
        flops = each.flops
        if flops:
            largest = max(each.writes, key=lambda x: x.bytes)
            part = self.scale(largest, region)
            flops = math.ceil(flops * part)
        self._out.append(replace(each, reads=reads, writes=writes, bytes=moved, flops=flops))

    def _sized(
        self, each: Operation, cut: Mapping[str, Span], along: str, region: bool, sent: bool
    ) -> Operation:
        """A product with its sizes on the rank; tokens go `along` one of them."""
        assert each.product is not None
        sizes = {name: getattr(each.product, name) for name in ("m", "n", "k", "batch")}
        if each.kind == "grouped_matmul":
            rows = each.reads[0].shape[1 if along == "k" else 0]
            groups = -(-sizes["batch"] // (self.par.ep if sent else 1))
            scale = Fraction(1, self.par.cp * (1 if region else self.sp))
            rows = math.ceil(rows * scale * (self.load if sent else 1))
            sizes["batch"] = groups
            sizes["m" if along == "m" else "k"] = -(-rows // groups)
        else:
            tokens = self.par.cp * (1 if region or not self.covers(each) else self.sp)
            sizes[along] = -(-sizes[along] // tokens)
        for letter, span in cut.items():
            size = "batch" if letter == "g" else letter
            sizes[size] = -(-sizes[size] // span.degree)
        product = Product(**sizes)
        reads, writes = (
            tuple(replace(x, bytes=self.local(x, region)) for x in buffers)
            for buffers in (each.reads, each.writes)
        )
        moved = sum(x.bytes for x in (*reads, *writes))
        return replace(
            each, reads=reads, writes=writes, bytes=moved, flops=product.flops, product=product
        )

    def _call(self, each: Operation, what: str, kind: str, size: int, group: str = "tp") -> None:
        if (self.par.ep if group == "ep" else self.par.tp) == 1:
            return
        self._out.append(CollectiveStep(self._named(each, what), kind, size, group))

    def _named(self, each: Operation, what: str) -> str:
        inside = each.module.removeprefix(self._path).strip(".")
        return f"{inside or 'model'}.{what}{'_grad' if each.backward else ''}"


def _has_point(x: Buffer) -> bool:
    """Whether a tensor holds numbers with a point."""
    return "float" in x.dtype or "complex" in x.dtype


def _letters(each: Operation, a: Buffer, b: Buffer) -> tuple[str, str, str]:
    """Sizes along the dimensions of the operands and of the result. `g` stands for groups."""
    if each.kind == "grouped_matmul":
        return ("mk", "gkn", "mn") if len(b.shape) == 3 else ("mk", "kn", "gmn")
    if len(a.shape) == 3:
        return "gmk", "gkn", "gmn"
    return "mk", "kn", "mn"


def _place(read: Sequence[int], write: Sequence[int], at: int) -> int | None:
    """The dimension of a result that is dimension `at` of what is read; None where the operation
    adds up along it."""
    if len(read) == len(write):
        return None if write[at] == 1 < read[at] else at
    if len(read) < len(write):
        more = len(write) - len(read)
        return at if tuple(write[: len(read)]) == tuple(read) else at + more
    place = 0
    for index, size in enumerate(read):
        kept = place < len(write) and write[place] == size
        if index == at:
            return place if kept else None
        place += kept
    return None
