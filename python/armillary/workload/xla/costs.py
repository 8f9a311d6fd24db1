"""Operations and bytes of each instruction of a module.

    product            2 * elements of the result * elements along the contracted dimensions
    convolution        2 * multiplications whose input is not padding
    elementwise        one for each element; exp, tanh and the like are counted apart
    reduction          what is applied, times the elements that vanish
    fusion, call       the sum of what they call; a fusion touches its inputs and outputs only
    bytes              inputs and outputs, less for slices, gathers and updates

Here: the rules of XLA's HloCostAnalysis, which `cost_analysis()` prints. Two differ: an all-reduce
has no operations here, for its additions belong to the collective, and a `while` has those of all
its runs (`programs.py`). Not here: custom calls (`custom_calls.py`).

Source: xla/service/hlo_cost_analysis.cc of openxla/xla."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from .module import Computation, DamagedError, Instruction, Labels, Module, Shape, Window

FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "domain",
    "add-dependency", "opt-barrier", "partition-id", "replica-id", "get-dimension-size",
    "set-dimension-size", "async-done", "async-update", "copy-done", "all-reduce-done",
    "all-gather-done", "collective-permute-done", "send-done", "recv-done",
})  # fmt: skip
"""Instructions that take no time: what they say is known when they are compiled, or they wait."""
TRANSCENDENTAL = frozenset({
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "sqrt",
    "cbrt", "rsqrt", "tanh", "sine", "cosine", "tan", "atan2", "erf", "acos", "acosh", "asin",
    "asinh", "atanh", "cosh", "sinh",
})  # fmt: skip
ELEMENTWISE = frozenset({
    "abs", "add", "and", "bitcast-convert", "ceil", "clamp", "compare", "complex", "convert",
    "count-leading-zeros", "divide", "floor", "imag", "is-finite", "maximum", "minimum",
    "multiply", "negate", "not", "or", "popcnt", "real", "reduce-precision", "remainder",
    "round-nearest-afz", "round-nearest-even", "select", "shift-left", "shift-right-arithmetic",
    "shift-right-logical", "sign", "stochastic-convert", "subtract", "xor",
})  # fmt: skip
MOVES = frozenset({
    "broadcast", "concatenate", "copy", "copy-start", "dynamic-reshape", "dynamic-slice",
    "dynamic-update-slice", "gather", "iota", "pad", "reshape", "reverse", "slice", "transpose",
    "rng-get-and-update-state", "batch-norm-training", "batch-norm-inference", "batch-norm-grad",
    "infeed", "outfeed",
})  # fmt: skip
"""Instructions that only move bytes, or whose operations XLA does not count either."""
_APPLIED = frozenset({
    "reduce", "reduce-window", "map", "scatter", "select-and-scatter", "sort",
})  # fmt: skip
_OTHER = frozenset({
    "dot", "ragged-dot", "convolution", "fft", "cholesky", "triangular-solve", "rng",
    "rng-bit-generator", "fusion", "topk", "custom-call",
})  # fmt: skip
COMPUTED = ELEMENTWISE | TRANSCENDENTAL | MOVES | _APPLIED | _OTHER
"""Instructions that a device computes."""
_MOST_POSITIONS = 65_536
_PRODUCTS = ("dot", "ragged-dot", "convolution")


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of an instruction. `transcendentals` are not among `operations`."""

    operations: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def times(self, count: int) -> Cost:
        """That of `count` of them, but for bytes: what is applied to elements touches no memory."""
        return Cost(self.operations * count, self.transcendentals * count)

    def touching(self, count: int) -> Cost:
        """The same work with other bytes."""
        return Cost(self.operations, self.transcendentals, count)


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix multiplication: `batch` times m x k by k x n, elements of `width` bytes (0 for 4
    bits)."""

    m: int
    n: int
    k: int
    batch: int
    width: int


class Costs:
    """Costs of a module, those of a computation found once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[int, Cost] = {}

    def of(self, computation: Computation, instruction: Instruction) -> Cost:
        """Work of one instruction that a device computes. Raises `DamagedError`."""
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in FREE:
            return Cost()
        if opcode not in COMPUTED:
            said = f"has an opcode without known operations: {opcode[:40]!r}"
            raise DamagedError(instruction.name, said, "an opcode of XLA of today")
        operands = computation.operands(instruction)
        if opcode in ELEMENTWISE:
            return Cost(shape.elements, 0, _touched(shape, operands))
        if opcode in TRANSCENDENTAL:
            return Cost(0, shape.elements, _touched(shape, operands))
        if opcode == "fusion":
            return self._fusion(instruction)
        try:
            work = self._work(instruction, operands)
            return work.touching(_bytes(instruction, operands))
        except IndexError:
            said = f"has too few operands, dimensions or computations for {opcode}"
            raise DamagedError(instruction.name, said) from None

    def total(self, place: int) -> Cost:
        """Work of all instructions of a computation that is applied or fused: those that it calls
        come first, in a list and not by calls."""
        if place not in self._known:
            for each in order(self.module, [place]):
                self._known[each] = self._sum(self.module.computations[each])
        return self._known[place]

    def _sum(self, computation: Computation) -> Cost:
        operations = transcendentals = 0
        for each in computation.instructions:
            if each.opcode in FREE:
                continue
            if each.opcode in ("call", "async-start"):
                found = self._known[each.calls[0]] if each.calls else Cost()
            elif each.opcode in ("while", "conditional"):
                parts = [self._known[callee] for callee in each.calls]
                found = Cost(
                    sum(part.operations for part in parts),
                    sum(part.transcendentals for part in parts),
                )
            elif each.opcode in COMPUTED:
                found = self.of(computation, each)
            else:
                continue
            operations += found.operations
            transcendentals += found.transcendentals
        return Cost(operations, transcendentals)

    def _applied(self, instruction: Instruction) -> Cost:
        """Work of the computation that an instruction applies to elements."""
        return self.total(instruction.calls[0])

    def _work(self, instruction: Instruction, operands: list[Instruction]) -> Cost:
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in ("dot", "ragged-dot"):
            found = Cost(2 * shape.elements * contracted(instruction, operands[0]))
        elif opcode == "convolution":
            labels = instruction.get("labels")
            sides = operands[0].shape, operands[1].shape, shape
            found = Cost(convolution(instruction, labels, *sides))
        elif opcode in ("reduce", "reduce-window"):
            found = self._reduced(instruction, operands)
        elif opcode == "map":
            found = self._applied(instruction).times(shape.elements)
        elif opcode == "scatter":
            count = (len(operands) - 1) // 2
            found = self._applied(instruction).times(operands[count + 1].shape.elements)
        elif opcode == "select-and-scatter":
            found = self._selected(instruction, operands)
        else:
            found = Cost(*_simple(instruction, operands))
        return found

    def _selected(self, instruction: Instruction, operands: list[Instruction]) -> Cost:
        source = operands[1].shape.elements
        window = math.prod(each.size for each in instruction.get("window", ()))
        select = self.total(instruction.calls[0]).times(source * (window - 1))
        scatter = self.total(instruction.calls[1]).times(source)
        return Cost(
            select.operations + scatter.operations,
            select.transcendentals + scatter.transcendentals,
        )

    def _reduced(self, instruction: Instruction, operands: list[Instruction]) -> Cost:
        first = instruction.shape.arrays()[0].elements
        if instruction.opcode == "reduce":
            count = max(0, operands[0].shape.elements - first)
        else:
            window = instruction.get("window", ())
            count = (math.prod(each.size for each in window) - 1) * first
            count = _spread(window, instruction.shape, count)
        return self._applied(instruction).times(count)

    def _fusion(self, instruction: Instruction) -> Cost:
        if not instruction.calls:
            raise DamagedError(instruction.name, "fuses nothing", "calls=a computation")
        place = instruction.calls[0]
        return self.total(place).touching(fused_bytes(self.module, instruction))


def _simple(instruction: Instruction, operands: list[Instruction]) -> tuple[int, int]:
    """Operations and transcendentals that follow from shapes alone."""
    opcode, shape = instruction.opcode, instruction.shape
    operations = transcendentals = 0
    if opcode in ("rng", "rng-bit-generator"):
        transcendentals = shape.elements
    elif opcode in ("sort", "topk"):
        count = operands[0].shape.elements
        operations = count * max(0, count - 1).bit_length()
    elif opcode == "fft":
        factors = math.prod(max(0, each.bit_length() - 1) for each in instruction.get("fft", ()))
        operations = 8 * factors * operands[0].shape.arrays()[0].elements
    elif opcode == "triangular-solve":
        operations = 2 * operands[0].shape.dims[-1] * operands[1].shape.elements
    elif opcode == "cholesky":
        operations = operands[0].shape.dims[-1] * operands[0].shape.elements // 3
    return operations, transcendentals


def _touched(shape: Shape, operands: Iterable[Instruction]) -> int:
    return shape.bytes + sum(each.shape.bytes for each in operands)


def _bytes(instruction: Instruction, operands: list[Instruction]) -> int:
    """Bytes that an instruction reads and writes by itself."""
    opcode, size = instruction.opcode, instruction.shape.bytes
    sizes = [each.shape.bytes for each in operands]
    found = size + sum(sizes)
    if opcode == "slice":
        found = 2 * size
    elif opcode in ("dynamic-slice", "gather"):
        found = 2 * size + sum(sizes[1:2])
    elif opcode == "dynamic-update-slice":
        found = 2 * sizes[1] + sum(sizes[2:3])
    elif opcode == "scatter":
        count = (len(operands) - 1) // 2
        found = 3 * sum(sizes[count + 1 :]) + sizes[count]
    elif opcode == "copy-start":
        found = 2 * sizes[0]
    elif opcode == "triangular-solve":
        found = size + sizes[0] // 2 + sizes[1]
    elif opcode == "cholesky":
        found = size
    return found


def contracted(instruction: Instruction, left: Instruction) -> int:
    """Elements along the contracted dimensions of a product."""
    dims = left.shape.dims
    along = instruction.get("lhs_contracting", ())
    if any(each >= len(dims) for each in along):
        raise DamagedError(instruction.name, f"contracts dimensions {list(along)} of {list(dims)}")
    return math.prod(dims[each] for each in along)


def product(instruction: Instruction, operands: list[Instruction]) -> Product | None:
    """The matrices of a product; none where their elements differ in width."""
    if len(operands) < 2 or instruction.get("ragged"):
        return None
    left, right = operands[0].shape, operands[1].shape
    kinds = {left.kind, right.kind, instruction.shape.kind}
    if len(kinds) > 1 or not left.is_array:
        return None
    k = contracted(instruction, operands[0])
    along = instruction.get("lhs_batch", ())
    if any(each >= len(left.dims) for each in along):
        return None
    batch = math.prod(left.dims[each] for each in along)
    if not k or not batch or not left.elements or not right.elements:
        return None
    m, n = left.elements // (batch * k), right.elements // (batch * k)
    bits = 8 * left.bytes // left.elements
    whole = m * n * batch == instruction.shape.elements and max(m, n, k, batch) < 2**32
    return Product(m, n, k, batch, bits // 8) if whole and bits >= 8 else None


def convolution(
    instruction: Instruction, labels: Labels | None, left: Shape, kernel: Shape, result: Shape
) -> int:
    """Operations of a convolution: padding and holes are not multiplied. Raises `DamagedError`."""
    name = instruction.name
    if labels is None:
        raise DamagedError(name, "has no dim_labels", "bf01_oi01->bf01")
    sides = (labels.inputs, left), (labels.kernel, kernel), (labels.output, result)
    if any(max(places) >= len(shape.dims) for places, shape in sides):
        raise DamagedError(name, "has dim_labels of other dimensions than its operands")
    window: tuple[Window, ...] = instruction.get("window", ())
    spatial = len(labels.inputs) - 2
    if {len(labels.kernel) - 2, len(labels.output) - 2} != {spatial} or len(window) not in (
        0,
        spatial,
    ):
        raise DamagedError(name, "has a window of other dimensions than its dim_labels")
    count = 1
    for at, each in enumerate(window):
        inputs, width, outputs = (shape.dims[places[2 + at]] for places, shape in sides)
        count *= positions(each, inputs, width, outputs, name)
    batch = left.dims[labels.inputs[0]] // int(instruction.get("batch_groups", 1))
    features = left.dims[labels.inputs[1]] // int(instruction.get("feature_groups", 1))
    return 2 * batch * features * result.dims[labels.output[1]] * count


@functools.lru_cache(1024)
def positions(window: Window, inputs: int, kernel: int, outputs: int, where: str) -> int:
    """Pairs of a place in the kernel and one in the output whose input is there: the smaller of
    the two is walked along, the other one counted. Raises `DamagedError`."""
    walked = (kernel, window.dilation), (outputs, window.stride)
    (few, step), (many, stride) = sorted(walked)
    if few > _MOST_POSITIONS:
        raise DamagedError(where, f"a window of {few:,} places", f"at most {_MOST_POSITIONS:,}")
    base = window.base_dilation
    divisor = math.gcd(stride, base)
    period = base // divisor
    inverse = pow(stride // divisor, -1, period) if period > 1 else 0
    end = (inputs - 1) * base
    count = 0
    for at in range(few):
        begin = at * step - window.low
        # Places x with 0 <= begin + x * stride <= end that are a multiple of `base`.
        first, last = max(0, -(begin // stride)), min(many - 1, (end - begin) // stride)
        if begin % divisor or first > last or inputs <= 0:
            continue
        wanted = (-begin // divisor * inverse) % period if period > 1 else 0
        first += (wanted - first) % period
        count += (last - first) // period + 1 if first <= last else 0
    return count


def _spread(window: tuple[Window, ...], shape: Shape, count: int) -> int:
    """Applications of a reduction that is spread over its dimension again, which costs no more than
    one reduction; `count` for every other one."""
    long = [at for at, each in enumerate(window) if each.size != 1]
    padded = [each for each in window if each.low or each.high]
    if len(long) != 1 or len(padded) != 1 or not shape.is_array or len(window) != len(shape.dims):
        return count
    each, size = window[long[0]], shape.dims[long[0]]
    if each.low != each.high or not each.low or each.size != 2 * each.low + 1:
        return count
    return shape.elements // size + size - 1 if each.low == size - 1 else count


def fused_bytes(module: Module, instruction: Instruction) -> int:
    """Bytes that a fusion reads and writes."""
    inner = module.computations[instruction.calls[0]]
    if instruction.get("kind") == "kCustom":
        for each in inner.instructions:
            if each.opcode in ("gather", "scatter") and len(each.operands) > 1:
                return _bytes(each, inner.operands(each))
    written, read = fused_flow(module, instruction)
    constants = sum(
        each.shape.bytes
        for each in inner.instructions
        if each.opcode == "constant" and each.shape.elements > 8
    )
    return written + sum(read.values()) + constants


def fused_flow(module: Module, instruction: Instruction) -> tuple[int, dict[int, int]]:
    """Bytes that a fusion writes, and those that it reads of each operand."""
    inner = module.computations[instruction.calls[0]]
    if not inner.instructions:
        return 0, {}
    root = inner.instructions[inner.root]
    users: list[list[int]] = [[] for _ in inner.instructions]
    for place, each in enumerate(inner.instructions):
        for operand in dict.fromkeys(each.operands):
            users[operand].append(place)
    written = 0
    results = inner.operands(root) if root.opcode == "tuple" else [root]
    for each in results:
        updates = each.opcode == "dynamic-update-slice" and len(each.operands) > 1
        result = inner.instructions[each.operands[1]] if updates else each
        written += result.shape.bytes
    read: dict[int, int] = {}
    for place, each in enumerate(inner.instructions):
        if each.opcode == "parameter":
            number = each.get("number", 0)
            read[number] = read.get(number, 0) + _read(module, inner, place, users)
    return written, read


def _read(module: Module, inner: Computation, place: int, users: list[list[int]]) -> int:
    """Bytes of a parameter of a fusion that are read; slices of it read less."""
    whole = inner.instructions[place].shape.bytes
    total, shared = 0, False
    for number in users[place]:
        user = inner.instructions[number]
        first = bool(user.operands) and user.operands[0] == place
        if user.opcode == "slice" or (user.opcode == "dynamic-slice" and first):
            total += user.shape.bytes
        elif user.opcode == "dynamic-update-slice" and first:
            continue
        elif user.opcode in ("broadcast", "reshape"):
            total += whole
        elif not shared:
            shared = True
            total += whole
    return total


def has_product(computation: Computation) -> list[Instruction]:
    """The products and convolutions of a computation."""
    return [each for each in computation.instructions if each.opcode in _PRODUCTS]


def order(module: Module, entries: list[int]) -> list[int]:
    """Computations that are reached from some, each behind those that it calls. Raises
    `DamagedError` for one that calls itself, or that is not all there."""
    found: list[int] = []
    state: dict[int, int] = {}
    waiting = list(reversed(entries))
    while waiting:
        place = waiting[-1]
        if place < 0:
            said = "ends before a computation that it calls"
            raise DamagedError(
                "the file", said, "a whole module, or --entry of another computation"
            )
        if state.get(place) == 2:
            waiting.pop()
            continue
        computation = module.computations[place]
        if place not in state:
            if computation.name == module.cut:
                said = f"ends inside the computation {computation.name}"
                allowed = "a whole module, or --entry of another computation"
                raise DamagedError("the file", said, allowed)
            state[place] = 1
            for each in computation.instructions:
                for callee in each.calls:
                    if state.get(callee) == 1:
                        raise DamagedError(computation.name, "calls itself")
                    if state.get(callee) != 2:
                        waiting.append(callee)
        else:
            waiting.pop()
            state[place] = 2
            found.append(place)
    return found
