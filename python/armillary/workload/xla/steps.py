"""A module as one list of steps, the same on all devices.

    scheduled        kernels run one after the other; `-start` to `-done` overlaps what is between
    not scheduled    a step waits for the steps whose results it takes

Here: loops, calls and branches put into the list, and what each step waits for. Not here: the ranks
(`ranks.py`), programs (`programs.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import costs, custom_calls, devices, loops
from .costs import Cost, Costs, Product
from .covered import Row
from .flows import Flow, flow
from .module import Computation, DamagedError, Groups, Instruction, Module

MOST = 2_000_000
"""Steps of a rank."""
COLLECTIVES = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-broadcast": "broadcast",
}
PERMUTE = "collective-permute"
_OPENED = frozenset({"call", "fusion", "async-start", "call-start", "while", "conditional"})
"""Instructions whose computation may be put into the list."""
_HOST = 5
"""Number of the memory of the host, on GPUs and on TPUs."""
_MOST_WORK = 2**60
"""Operations of a rank, and bytes."""
_MESSAGES = ("send", "recv")
_PAIRS = re.compile(r"_xla_send_recv_source_target_pairs=\"?(\{[\d,{}\s]*\})")
_VALID = "_xla_send_recv_validation"
_WAYS = "--trip-count NAME=N"
Pairs = tuple[tuple[int, int], ...]
Value = Any
"""Steps that a result waits for: a tuple of steps; or a list of values, for a tuple of results."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel."""

    name: str
    layer: str
    after: tuple[int, ...]
    cost: Cost
    kernel: str
    product: Product | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy next to the kernels, in the NPU's memory or from or to the host's."""

    name: str
    layer: str
    after: tuple[int, ...]
    bytes: int
    reach: str
    store: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of a family of groups."""

    name: str
    layer: str
    after: tuple[int, ...]
    kind: str
    bytes: int
    family: int
    run: int = 0
    """The run of a computation that it belongs to."""


@dataclass(frozen=True, slots=True)
class Permute:
    """Messages between ranks, each in at most one and out at most one."""

    name: str
    layer: str
    after: tuple[int, ...]
    bytes: int
    pairs: int
    half: str = ""
    """`send` or `recv`, where the two are steps of their own."""
    tag: int = 0
    """Number that both halves have."""


Step = Work | Copy | Exchange | Permute


@dataclass
class Steps:
    """The list, with the groups and messages that its steps name by number."""

    steps: list[Step] = field(default_factory=list)
    families: list[Groups] = field(default_factory=list)
    pairs: list[Pairs] = field(default_factory=list)
    computed: dict[str, Row] = field(default_factory=dict)
    exchanged: dict[str, Row] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    instructions: int = 0
    flows: dict[int, Flow] = field(default_factory=dict)
    """Flows of steps, if they were asked for."""
    results: tuple[int, ...] = ()
    """The steps that make the result of the whole."""


@dataclass
class _Frame:
    """A computation that is being put into the list."""

    place: int
    arguments: list[Value]
    runs: int = 1
    detached: tuple[int, ...] | None = None
    """For what runs next to the kernels: the steps that the next kernel waits for."""
    at: int = 0
    values: list[Value] = field(default_factory=list)
    run: int = 0
    """The number of this run among all runs of computations."""


def read(module: Module, entry: int, trips: Mapping[str, int], *, flows: bool = False) -> Steps:
    """The steps of a computation of a module, with `flows` also what each takes. Raises
    `DamagedError`."""
    return _Reader(module, entry, trips, flows).steps()


def _all(value: Value) -> tuple[int, ...]:
    """All steps in a value."""
    if isinstance(value, tuple):
        return value
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            found.update(each)
        elif id(each) not in seen:
            # Tuples of tuples may share their elements.
            seen.add(id(each))
            waiting += each
    return tuple(sorted(found))


def _joined(values: list[Value]) -> tuple[int, ...]:
    if len(values) == 1:
        return _all(values[0])
    return tuple(sorted({step for value in values for step in _all(value)}))


def _element(each: Instruction, value: list[Value]) -> Value:
    """The element of a tuple that an instruction takes."""
    number = each.get("number", 0)
    if number >= len(value):
        raise DamagedError(each.name, f"takes element {number} of {len(value)}")
    return value[number]


class _Reader:
    def __init__(self, module: Module, entry: int, trips: Mapping[str, int], flows: bool) -> None:
        self.module, self.entry, self.trips = module, entry, trips
        self.with_flows = flows
        self.costs = Costs(module)
        self.found = Steps()
        self.chain: tuple[int, ...] = ()
        self.known: dict[Groups, int] = {}
        self.same: dict[tuple[Any, ...], int] = {}
        self.messages: dict[Pairs, int] = {}
        self.of: dict[tuple[int, int], Any] = {}
        self.unused = set(trips)
        self.run = 0
        self.halves: dict[tuple[str, int], int] = {}
        self.tags: dict[tuple[int, int], int] = {}
        reached = costs.order(module, [entry])
        self.talks = self._talking(reached)
        if self._size(reached) > 2 * MOST:
            raise self._too_many()

    def _talking(self, reached: list[int]) -> set[int]:
        """Computations with a collective in them."""
        found: set[int] = set()
        for place in reached:
            for each in self.module.computations[place].instructions:
                base = each.opcode.removesuffix("-start")
                calls = each.opcode in _OPENED
                if (
                    base in COLLECTIVES
                    or base in (PERMUTE, *_MESSAGES)
                    or (calls and any(callee in found for callee in each.calls))
                ):
                    found.add(place)
                    break
        return found

    def _size(self, reached: list[int]) -> int:
        """Instructions of the last computation with all that it runs, loops as often as they
        run."""
        sizes: dict[int, int] = {}
        for place in reached:
            computation = self.module.computations[place]
            sizes[place] = len(computation.instructions)
            for at, each in enumerate(computation.instructions):
                if each.opcode == "while":
                    sizes[place] += self._runs(each, place, at) * sizes[each.calls[0]]
                elif each.opcode in _OPENED:
                    inside = [sizes[callee] for callee in each.calls]
                    listed = each.opcode != "fusion" or not self.talks.isdisjoint(each.calls)
                    sizes[place] += max(inside, default=0) if listed else 0
        return sizes[reached[-1]]

    def _runs(self, loop: Instruction, place: int, at: int) -> int:
        """Runs of a loop, found once."""
        if (place, at) not in self.of:
            self.of[place, at] = self._trips(loop, self.module.computations[place])
        return int(self.of[place, at])

    def steps(self) -> Steps:
        """The whole list."""
        stack = [_Frame(self.entry, [])]
        while stack:
            frame = stack[-1]
            if self._advance(stack, frame):
                continue
            result = frame.values[self.module.computations[frame.place].root]
            if frame.runs > 1:
                frame.runs, frame.at = frame.runs - 1, 0
                self.run += 1
                frame.run = self.run
                frame.arguments, frame.values = [result], []
                continue
            stack.pop()
            self.found.results = _all(result)
            if frame.detached is not None:
                result = tuple(sorted({*_all(result), *self.chain} - {*frame.detached}))
                self.chain = frame.detached
            if stack:
                stack[-1].values.append(result)
                stack[-1].at += 1
        rows = (*self.found.computed.values(), *self.found.exchanged.values())
        work = sum(max(row.operations + row.transcendentals, row.bytes) for row in rows)
        if work > _MOST_WORK:
            raise DamagedError("the module", "has more than 2^60 operations or bytes on a rank")
        if self.unused:
            name = min(self.unused)
            said = "is not a loop that runs an unknown number of times"
            raise DamagedError(f"--trip-count {name}", said, "names of loops that are refused")
        return self.found

    def _advance(self, stack: list[_Frame], frame: _Frame) -> bool:
        """Takes instructions up to the end, or up to one that another frame gives a value: true
        then."""
        computation = self.module.computations[frame.place]
        values, instructions = frame.values, computation.instructions
        self.found.instructions += len(instructions) - frame.at
        for at in range(frame.at, len(instructions)):
            each = instructions[at]
            frame.at = at
            if each.opcode == "get-tuple-element" and len(each.operands) == 1:
                value = values[each.operands[0]]
                values.append(value if isinstance(value, tuple) else _element(each, value))
                continue
            taken = [values[place] for place in each.operands]
            if each.opcode in _OPENED:
                opened = self._opened(each, frame.place, at, taken)
                if opened is not None:
                    inlined = each.opcode not in ("while", "conditional")
                    self.run += not inlined
                    opened.run = frame.run if inlined else self.run
                    self.found.instructions -= len(instructions) - at - 1
                    stack.append(opened)
                    return True
            count = len(self.found.steps)
            value = self._value(each, computation, frame, taken)
            if self.with_flows and len(self.found.steps) > count:
                makers = [_all(one) for one in taken]
                self.found.flows[count] = flow(self.module, frame.place, computation, each, makers)
            if each.controls and not self.module.scheduled and isinstance(value, tuple):
                value = _joined([value, *(values[p] for p in each.controls if p < at)])
            values.append(value)
        frame.at = len(instructions)
        return False

    def _too_many(self) -> DamagedError:
        said = f"more than {MOST:,} steps on each rank"
        return DamagedError("the module", said, "loops that run less often, by --trip-count")

    def _opened(self, each: Instruction, place: int, at: int, values: list[Value]) -> _Frame | None:
        """The computation that an instruction runs, where it is put into the list."""
        opened = None
        if each.opcode == "while":
            runs = self._runs(each, place, at)
            opened = _Frame(each.calls[0], values, runs) if runs else None
        elif each.opcode == "conditional":
            opened = self._branch(each, values)
        elif each.opcode.endswith("-start") and each.calls:
            opened = _Frame(each.calls[0], values, 1, self.chain)
        elif each.opcode == "call" and each.calls:
            opened = _Frame(each.calls[0], values)
        elif each.calls and each.calls[0] in self.talks:
            self._warn(f"parts of {each.name}, which fuses a collective, are separate kernels")
            opened = _Frame(each.calls[0], values)
        return opened

    def _trips(self, loop: Instruction, computation: Computation) -> int:
        if len(loop.calls) != 2:
            raise DamagedError(loop.name, "has no body or no condition")
        self._leave("conditions of loops, which cost next to nothing", 1)
        found = loops.trips(self.module, computation, loop)
        if found is not None:
            return found
        if loop.name not in self.trips:
            said = "is a loop that runs an unknown number of times"
            raise DamagedError(loop.name, said, f"{_WAYS}, such as --trip-count {loop.name}=10")
        self.unused.discard(loop.name)
        return self.trips[loop.name]

    def _branch(self, each: Instruction, values: list[Value]) -> _Frame:
        """The branch with most operations."""
        if not each.calls or len(values) <= len(each.calls):
            raise DamagedError(each.name, "has no branch, or too few operands")
        totals = [self.costs.total(place) for place in each.calls]
        sizes = [
            sum(one.shape.bytes for one in self.module.computations[place].instructions)
            for place in each.calls
        ]
        longest = max(
            range(len(totals)),
            key=lambda at: (totals[at].operations + totals[at].transcendentals, sizes[at]),
        )
        branch = self.module.computations[each.calls[longest]].name
        self._warn(f"{each.name} always takes its longest branch, {branch}")
        return _Frame(each.calls[longest], [values[1 + longest]])

    def _warn(self, said: str) -> None:
        self.found.warnings[said] = self.found.warnings.get(said, 0) + 1

    def _leave(self, why: str, count: int) -> None:
        self.found.left_out[why] = self.found.left_out.get(why, 0) + count

    def _value(
        self, each: Instruction, computation: Computation, frame: _Frame, values: list[Value]
    ) -> Value:
        """Steps that the result of an instruction waits for."""
        opcode, base = each.opcode, each.opcode.removesuffix("-start")
        value: Value = _joined(values) if values else ()
        if opcode == "parameter":
            number = each.get("number", 0)
            value = frame.arguments[number] if number < len(frame.arguments) else ()
        elif opcode == "tuple":
            value = values
        elif opcode in ("opt-barrier", "while", "domain") and values:
            value = values[0]
        elif base in COLLECTIVES or base == PERMUTE:
            value = self._exchanged(each, computation, frame, base, values)
        elif opcode in _MESSAGES:
            value = self._message(each, computation, frame, values)
        elif opcode.endswith("-done"):
            value = self._wait(value)
        elif opcode.endswith("-update"):
            pass
        elif opcode not in costs.FREE and not custom_calls.is_free(each):
            detached = opcode.endswith("-start") and opcode != "copy-start"
            if detached and base in costs.COMPUTED:
                each = _unwrapped(each, base)
            value = self._worked(each, computation, frame, values, detached)
        return value

    def _wait(self, value: tuple[int, ...]) -> tuple[int, ...]:
        """The next kernel waits for something that ran next to others."""
        if self.module.scheduled:
            self.chain = tuple(sorted({*self.chain, *value}))
        return value

    def _message(
        self, each: Instruction, computation: Computation, frame: _Frame, values: list[Value]
    ) -> Value:
        """A send or a receive of its own. The first send to some devices belongs to the first
        receive from them, and so on."""
        said = each.get("frontend", "")
        match = _PAIRS.search(said)
        if each.get("host"):
            self._leave("messages from and to the host", 1)
            return _joined(values) if values else ()
        if match is None:
            said = f"is a {each.opcode} between devices that does not name them"
            raise DamagedError(each.name, said, "_xla_send_recv_source_target_pairs")
        if _VALID in said:
            self._warn("messages of a pipeline are sent in all runs of its loop")
        key = (frame.place, frame.at)
        if key not in self.of:
            pairs = devices.parse_pairs(match[1], each.name)
            attributes = {**each.attributes, "pairs": pairs}
            self.of[key] = self._numbered(replace(each, attributes=attributes))
        sent = computation.operands(each)[:1] if each.opcode == "send" else []
        shapes = [one.shape for one in sent] or list(each.shape.parts[:1])
        size = sum(shape.bytes for shape in shapes)
        count = self.halves.get((each.opcode, self.of[key]), 0)
        self.halves[each.opcode, self.of[key]] = count + 1
        if each.opcode == "send":
            self.found.exchanged.setdefault("send", Row()).add(0, 0, size)
        step = Permute(
            each.name,
            layer_of(each.op_name),
            self._after(values, each, frame),
            size,
            int(self.of[key]),
            each.opcode,
            self.tags.setdefault((self.of[key], count), MOST + len(self.tags)),
        )
        return self._add(step, True) if size else step.after

    def _numbered(self, each: Instruction) -> int:
        """The number of the messages of an instruction."""
        pairs = devices.pairs_of(self.module, each)
        if pairs not in self.messages:
            self.messages[pairs] = len(self.found.pairs)
            self.found.pairs.append(pairs)
        return self.messages[pairs]

    def _after(self, values: list[Value], each: Instruction, frame: _Frame) -> tuple[int, ...]:
        if self.module.scheduled:
            return self.chain
        waits = [frame.values[place] for place in each.controls if place < frame.at]
        return _joined([*values, *waits])

    def _add(self, step: Step, alongside: bool) -> tuple[int, ...]:
        if len(self.found.steps) >= MOST:
            raise self._too_many()
        self.found.steps.append(step)
        number = (len(self.found.steps) - 1,)
        if self.module.scheduled and not alongside:
            self.chain = number
        return number

    def _worked(
        self,
        each: Instruction,
        computation: Computation,
        frame: _Frame,
        values: list[Value],
        detached: bool,
    ) -> Value:
        key = (frame.place, frame.at)
        if key not in self.of:
            cost, kernel, product, kind = self._kernel(each, computation)
            row = self.found.computed.setdefault(kind, Row())
            self.of[key] = (cost, kernel, product, row, layer_of(each.op_name))
        cost, kernel, product, row, layer = self.of[key]
        after = self.chain if self.module.scheduled else self._after(values, each, frame)
        row.add(cost.operations, cost.transcendentals, cost.bytes)
        if each.opcode == "copy-start":
            spaces = [shape.space for shape in each.shape.arrays()[:2]]
            reach = "host" if _HOST in spaces else "local"
            store = bool(spaces) and spaces[0] == _HOST
            size = cost.bytes // 2 if reach == "host" else cost.bytes
            return self._add(Copy(each.name, layer, after, size, reach, store), True)
        if not (cost.operations or cost.transcendentals or cost.bytes):
            return after
        if (detached or frame.detached is not None) and each.opcode in costs.MOVES:
            return self._add(Copy(each.name, layer, after, cost.bytes, "local", False), detached)
        return self._add(Work(each.name, layer, after, cost, kernel, product), detached)

    def _kernel(
        self, each: Instruction, computation: Computation
    ) -> tuple[Cost, str, Product | None, str]:
        """Work, kind of kernel, matrices and kind of row of an instruction."""
        operands = computation.operands(each)
        if each.opcode == "custom-call":
            target = each.get("target", "")
            if target.startswith(custom_calls.SHARDED):
                said = "belongs to a module that is not yet split over devices"
                raise DamagedError(each.name, said, "the module after the SPMD partitioner")
            known = custom_calls.of(each, operands)
            if known.warning:
                self._warn(known.warning)
            return known.cost, known.kernel, None, "custom calls"
        cost = self.costs.of(computation, each)
        inner = [each]
        if each.opcode == "fusion":
            place = self.module.computations[each.calls[0]]
            inner = costs.has_product(place)
            operands = place.operands(inner[0]) if len(inner) == 1 else []
        elif each.opcode not in ("dot", "ragged-dot", "convolution"):
            kernel = "embedding" if each.opcode in ("gather", "scatter") else "elementwise"
            copies = each.opcode == "copy-start"
            return cost, kernel, None, "copies next to kernels" if copies else "other kernels"
        if not inner:
            return cost, "elementwise", None, "fusions without products"
        found = None
        if len(inner) == 1 and inner[0].opcode == "dot" and not cost.transcendentals:
            found = costs.product(inner[0], operands)
            if found is not None and not _alone(found, cost):
                found = None
        kinds = {product_kernel(one) for one in inner}
        kernel = next(iter(kinds)) if len(kinds) == 1 else "gemm"
        row = "convolutions" if kernel == "convolution" else "products"
        return cost, kernel, found, row

    def _exchanged(
        self,
        each: Instruction,
        computation: Computation,
        frame: _Frame,
        base: str,
        values: list[Value],
    ) -> Value:
        operands = computation.operands(each)
        if base == "ragged-all-to-all":
            operands = operands[:1]
            self._warn(f"{each.name} sends all of its input, in equal parts to each device")
        size = sum(one.shape.bytes for one in operands)
        after = self._after(values, each, frame)
        if base == PERMUTE and len(operands) > 2:
            said = f"moves parts of {len(operands)} operands, which is not read"
            raise DamagedError(each.name, said, "a collective-permute of whole arrays")
        kind = COLLECTIVES.get(base, "send")
        self.found.exchanged.setdefault(kind, Row()).add(0, 0, size)
        layer, alongside = layer_of(each.op_name), each.opcode.endswith("-start")
        step: Step
        if base == PERMUTE:
            step = Permute(each.name, layer, after, size, self._pairs(each, frame))
        else:
            family = self._family(each, frame, base)
            step = Exchange(each.name, layer, after, kind, size, family, frame.run)
        return self._add(step, alongside) if size else after

    def _family(self, each: Instruction, frame: _Frame, base: str) -> int:
        key = (frame.place, frame.at)
        if key not in self.of:
            self.of[key] = self._groups(each, base)
        return int(self.of[key])

    def _groups(self, each: Instruction, base: str) -> int:
        """The number of the groups of a collective. The readers give groups that are written the
        same way as one object, so that those of many devices are looked at once."""
        mode = (each.get("channel"), each.get("global_ids"), base in devices.FLATTENING)
        same = (id(each.get("groups")), *mode)
        if same not in self.same:
            groups = devices.ranks_of(self.module, each, base)
            if groups not in self.known:
                self.known[groups] = len(self.found.families)
                self.found.families.append(groups)
            self.same[same] = self.known[groups]
        return self.same[same]

    def _pairs(self, each: Instruction, frame: _Frame) -> int:
        key = (frame.place, frame.at)
        if key not in self.of:
            self.of[key] = self._numbered(each)
        return int(self.of[key])


def _unwrapped(each: Instruction, opcode: str) -> Instruction:
    """The instruction that a start begins: its result is the second part of the start's."""
    parts = each.shape.parts
    return replace(each, opcode=opcode, shape=parts[1] if len(parts) > 1 else each.shape)


def _alone(product: Product, cost: Cost) -> bool:
    """Whether a kernel does nothing but multiply two matrices."""
    operations = 2 * product.m * product.n * product.k * product.batch
    elements = product.m * product.k + product.k * product.n + product.m * product.n
    size = elements * product.batch * product.width
    return cost.operations == operations and cost.bytes == size


def product_kernel(each: Instruction) -> str:
    """The kind of the kernel of a product or a convolution."""
    if each.opcode == "ragged-dot":
        return "grouped"
    is_matrix = each.opcode == "dot" or each.op_name.endswith("dot_general")
    return "gemm" if is_matrix or not each.get("window") else "convolution"


def layer_of(op_name: str) -> str:
    """Where an instruction comes from: its name by the framework, less the program and the
    operation."""
    parts = op_name.split("/")
    return "/".join(parts[1:-1])[:200]
