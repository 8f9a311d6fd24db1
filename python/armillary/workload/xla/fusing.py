"""Kernels as a GPU has them, of a module that was not yet fused, or fused for a processor.

    chain        what passes values on without a product or a collective in between is one kernel
    bytes        its inputs, each once, and what others need of it
    again        cheap instructions are computed again where that reads no more than their result
    views        transposed or reshaped operands of products cost nothing
    constants    what follows from constants alone was computed by the compiler
    reductions   a kernel reduces rows as it goes, and then writes one result; what else is kept of
                 its input, and sums of columns, are read again
    norms        a chain that reduces, and takes a reciprocal root or one of another chain
    optimizers   a chain that renews two or more values that the module was given

Here: which kernels become one, and their bytes. Not here: what instructions cost (`costs.py`), what
they take (`flows.py`).

Source: of openxla/xla, IsExpensive in xla/service/instruction_fusion.cc (what may be computed
again), PriorityFusion, MultiOutputFusion and SoftmaxRewriterTriton of the GPU's compiler (chains,
also over reductions), TransposeFolding and LayoutAssignment (views), HloConstantFolding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from . import costs
from .costs import Cost
from .covered import Row
from .flows import UPDATE, VIEWS, Input, Key
from .joining import accumulated, combined, ordered
from .ordering import arranged
from .steps import Steps, Work

_CHEAP = VIEWS | frozenset({
    "abs", "add", "and", "bitcast-convert", "broadcast", "ceil", "clamp", "compare", "complex",
    "concatenate", "convert", "count-leading-zeros", "dynamic-slice", "floor", "imag", "iota",
    "is-finite", "maximum", "minimum", "multiply", "negate", "not", "or", "pad", "popcnt", "real",
    "reverse", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
    "slice", "subtract", "xor",
})  # fmt: skip
"""Instructions that are computed again rather than kept."""
_CHAINED = (
    _CHEAP | costs.ELEMENTWISE | costs.TRANSCENDENTAL | frozenset({"reduce", "fusion", UPDATE})
)
_MOST_SOURCES = 8
"""Values that are read to compute another one again."""
_Source = int | Key
_OTHERS, _FUSIONS = "other kernels", "fusions without products"
CHAINS = "chains of kernels"
SAID = (
    "kernels are fused as a GPU would at best: what passes values on without a product or a "
    "collective in between is one kernel, which reads its inputs once"
)


def fused(found: Steps, combine: int) -> Steps:
    """The same steps with chains in place of kernels without products, sums in products, and
    collectives combined up to `combine` bytes. Its steps have to wait for
    their operands only, and to have flows."""
    return arranged(combined(_Fuser(accumulated(found)).fused(), combine))


class _Fuser:
    def __init__(self, found: Steps) -> None:
        self.found, self.flows = found, found.flows
        self.chained = [self._is_chained(number) for number in range(len(found.steps))]
        self.constant = [False] * len(found.steps)
        self.kept: set[int] = set()
        self.ends: set[int] = set()
        """Steps that make results of the module."""
        self.members: dict[int, list[int]] = {}
        self.level = [0] * len(found.steps)
        self.chain = self._chains()
        self.sources = self._again()

    def _is_chained(self, number: int) -> bool:
        step, flow = self.found.steps[number], self.flows.get(number)
        return (
            isinstance(step, Work)
            and step.kernel == "elementwise"
            and flow is not None
            and flow.opcode in _CHAINED
        )

    def _chains(self) -> list[int]:
        """The first step of the chain of each step, which is itself for others. A step between two
        chains has a higher level than the first of them, so chains never wait for each other in a
        circle."""
        first = list(range(len(self.chained)))
        level = self.level

        def root(number: int) -> int:
            while first[number] != number:
                first[number] = first[first[number]]
                number = first[number]
            return number

        for number, step in enumerate(self.found.steps):
            highest = max((level[each] for each in step.after), default=0)
            level[number] = highest + (not self.chained[number])
            if not self.chained[number]:
                continue
            inputs = self.flows[number].inputs
            makers = [each for one in inputs for each in one.steps]
            self.constant[number] = len(makers) >= len(inputs) and all(
                self.constant[each] for each in makers
            )
            for each in makers:
                if self.flows[number].across:
                    continue
                alike = self.chained[each] and self.constant[each] == self.constant[number]
                if alike and level[each] == level[number]:
                    low, high = sorted((root(each), root(number)))
                    first[high] = low
        return [root(number) for number in range(len(first))]

    def fused(self) -> Steps:
        """The new steps."""
        members = self.members
        for number, first in enumerate(self.chain):
            if self.chained[number]:
                members.setdefault(first, []).append(number)
            else:
                self._need(number)
        for number in self.found.results:
            self.ends.add(self._keep(number))
        works: dict[int, Work | None] = {}
        _, ends = ordered(self.found.steps, self.chain, {})
        for first in sorted(members, key=lambda each: -min(ends[each])):
            needed = not self.constant[first] and not self.kept.isdisjoint(members[first])
            works[first] = self._work(first, members[first]) if needed else None
        self._count(works)
        steps, _ = ordered(self.found.steps, self.chain, works)
        return replace(self.found, steps=steps, flows={})

    def _need(self, number: int) -> None:
        """Keeps what a step takes that is not in a chain."""
        flow = self.flows.get(number)
        taken = (each for one in flow.inputs for each in one.steps) if flow else ()
        for each in taken or self.found.steps[number].after:
            self._keep(each)

    def _keep(self, number: int) -> int:
        """Keeps the result of a step, or of what it is a view of; which of them."""
        while self.chained[number] and self.flows[number].opcode in VIEWS:
            makers = [each for one in self.flows[number].inputs for each in one.steps]
            if len(makers) != 1:
                break
            number = makers[0]
        else:
            self.kept.add(number)
        return number

    def _taken(self, one: Input) -> Iterator[tuple[_Source, int]]:
        """The values that an input is, with the bytes that are read of each."""
        if not one.steps:
            yield one.key, one.bytes
        for each in one.steps:
            flow = self.flows.get(each)
            yield each, min(one.bytes, flow.bytes) if flow else one.bytes

    def _again(self) -> dict[int, dict[_Source, int]]:
        """Reads that compute each cheap step again, if they are few."""
        sources: dict[int, dict[_Source, int]] = {}
        for number, chained in enumerate(self.chained):
            if not chained or self.flows[number].opcode not in _CHEAP:
                continue
            found: dict[_Source, int] = {}
            for one in self.flows[number].inputs:
                for source, size in self._taken(one):
                    deeper = sources.get(source) if isinstance(source, int) else None
                    part = {source: size}
                    if deeper is not None:
                        all_of_it = self._part(deeper, source, size)
                        if 4 * sum(all_of_it.values()) <= 5 * size:
                            part = all_of_it
                    for each, most in part.items():
                        found[each] = max(found.get(each, 0), most)
            if len(found) <= _MOST_SOURCES:
                sources[number] = found
        return sources

    def _part(self, taken: Mapping[_Source, int], of: _Source, size: int) -> dict[_Source, int]:
        """Reads that compute `size` bytes of the result of a step again."""
        whole = self.flows[of].bytes if isinstance(of, int) and of in self.flows else size
        if size >= whole:
            return dict(taken)
        return {each: most * size // whole for each, most in taken.items()}

    def _read(self, first: int, numbers: list[int]) -> dict[_Source, int]:
        """Values that a chain reads, with the bytes of each."""
        read: dict[_Source, int] = {}
        again: dict[int, int] = {}
        for number in numbers:
            for one in self.flows[number].inputs:
                for source, size in self._taken(one):
                    if isinstance(source, int) and self.chained[source]:
                        if self.chain[source] != first:
                            again[source] = max(again.get(source, 0), size)
                    else:
                        read[source] = max(read.get(source, 0), size)
        for source, size in again.items():
            more = self._more(source, size, read)
            if more is None:
                more = {source: size}
            read.update(more)
            self.kept.update(each for each in more if isinstance(each, int))
        return read

    def _more(
        self, source: int, size: int, read: Mapping[_Source, int]
    ) -> dict[_Source, int] | None:
        """More reads that compute a step again; none if to keep its result moves no more
        bytes: it is written and read, and a chain that keeps nothing else reads its inputs."""
        found = self.sources.get(source)
        if found is None:
            return None
        part = self._part(found, source, size)
        more = {each: most for each, most in part.items() if most > read.get(each, 0)}
        extra = sum(most - read.get(each, 0) for each, most in more.items())
        kept = size
        if source not in self.kept and not self.constant[source]:
            kept += self.flows[source].bytes
            if self.kept.isdisjoint(self.members[self.chain[source]]):
                kept += sum(found.values())
        return more if extra < kept else None

    def _work(self, first: int, numbers: list[int]) -> Work:
        """The kernel of a chain."""
        steps = [step for each in numbers if isinstance(step := self.found.steps[each], Work)]
        written = sum(self.flows[each].bytes for each in numbers if each in self.kept)
        written += sum(self.flows[each].bytes for each in self._before_reductions(numbers))
        read = self._read(first, numbers)
        cost = Cost(
            sum(step.cost.operations for step in steps),
            sum(step.cost.transcendentals for step in steps),
            sum(read.values()) + written,
        )
        longest = max(steps, key=lambda step: step.cost.bytes)
        opcodes = {self.flows[each].opcode for each in numbers}
        roots = {self.flows[each].opcode for each in read if isinstance(each, int)}
        kernel = longest.kernel
        if "reduce" in opcodes and "rsqrt" in opcodes | roots:
            kernel = "normalization"
        elif self._updates(numbers, read):
            kernel = "optimizer"
        return replace(longest, cost=cost, kernel=kernel)

    def _updates(self, numbers: list[int], read: Mapping[_Source, int]) -> bool:
        """Whether a chain renews state: it makes two or more results of the module from a gradient
        and from values of this size that the module was given."""
        made = [each for each in numbers if each in self.kept]
        if len(made) < 2 or not self.ends.issuperset(made):
            return False
        least = min(self.flows[each].bytes for each in made)
        given = [size for source, size in read.items() if not isinstance(source, int)]
        computed = any(isinstance(each, int) and read[each] >= least for each in read)
        return computed and sum(size >= least for size in given) >= 2

    def _before_reductions(self, numbers: list[int]) -> list[int]:
        """Steps that are kept and reduced in the same chain: one kernel writes them, and another,
        which writes one result only, reads them."""
        inside = set(numbers)
        reduced: set[int] = set()
        for number in sorted(numbers, reverse=True):
            if self.flows[number].opcode == "reduce" or number in reduced:
                makers = (each for one in self.flows[number].inputs for each in one.steps)
                reduced.update(each for each in makers if each in inside)
        return [
            each
            for each in numbers
            if each in reduced and each in self.kept and self.flows[each].opcode != "reduce"
        ]

    def _count(self, works: Mapping[int, Work | None]) -> None:
        """Moves what is in chains to a row of their own."""
        rows, chains = self.found.computed, Row()
        for numbers in self.members.values():
            for number in numbers:
                step = self.found.steps[number]
                if isinstance(step, Work):
                    row = rows[_FUSIONS if self.flows[number].opcode == "fusion" else _OTHERS]
                    cost = step.cost
                    row.count -= 1
                    row.operations -= cost.operations
                    row.transcendentals -= cost.transcendentals
                    row.bytes -= cost.bytes
        for work in works.values():
            if work is not None:
                chains.add(work.cost.operations, work.cost.transcendentals, work.cost.bytes)
        kept = {kind: row for kind, row in rows.items() if row.count}
        self.found.computed = {**kept, CHAINS: chains} if chains.count else kept
