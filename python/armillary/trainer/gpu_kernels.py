"""What a GPU does with embedding tables: kernels in Triton.

Here: lookups, updates, initial weights. Not here: their launch, and what is checked first
(`gpu.py`).

The arithmetic is that of `crates/embedding`, operation by operation, and its order too: multiplies
and adds are not fused, quotients and roots are rounded to nearest, and sums over a row are made in
the lanes of a vector of 16. Nothing is added up atomically. So results have the bits of the
engine on processors, and those of every other run. One sum has another order: more than `CHUNK`
gradients of one row are added up in chunks, whose sums are added up.

A table's facts are int64 numbers, at these places:"""

# Kernels are not functions of Python: their arguments have the types of Triton.
# ruff: noqa: ANN001, ANN201, PLR0124, PLR0912, PLR0915
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

ADDRESS = tl.constexpr(0)
"""Where the rows are."""
DIM = tl.constexpr(1)
"""Elements of a row."""
GROUP = tl.constexpr(2)
"""Tables of one type and about one width, for which a kernel is launched."""
STATE = tl.constexpr(3)
"""Where the first part of the optimizer's state is; the second part is next."""
FIRST_KEY = tl.constexpr(5)
"""The key of row 0; keys of all rows of all tables are different."""
FIRST_ROW = tl.constexpr(6)
"""The table's first row in the whole table."""
FIRST_COLUMN = tl.constexpr(7)
"""The table's first column in the whole table."""
CHANCE = tl.constexpr(8)
"""The key of rounding by chance in this step."""
NAMES = tl.constexpr(9)
"""Where the rows' numbers in the table are, if these rows are the slots of a cache."""
WHOLE = tl.constexpr(10)
"""Columns of whole rows, if the table has some of them and sums over all; otherwise 0."""
FACTS = tl.constexpr(11)
"""Numbers of a table."""

FEATURE_TABLE = tl.constexpr(0)
"""A feature's table."""
FEATURE_COLUMN = tl.constexpr(1)
"""A feature's first column in the result."""
FEATURE_MEAN = tl.constexpr(2)
"""Whether a feature is the mean of its rows."""
FEATURE_FACTS = tl.constexpr(3)
"""Numbers of a feature."""

F32, F16, BF16, I8 = (tl.constexpr(kind) for kind in range(4))
"""Types of elements."""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether kernels run in Triton's interpreter, on the processor."""

SGD, ADAGRAD, ROW_WISE_ADAGRAD, ADAM, LAMB = (tl.constexpr(rule) for rule in range(5))
"""Rules of optimizers."""

NO_SUMS, GIVEN_SUMS, TAKE_CLIP, TAKE_RULE = (tl.constexpr(use) for use in range(4))
"""What an update does with sums over rows, where tables have some of their columns. There are none.
It uses those over whole rows. It only adds up its own columns, for clipping or for the rule."""
SUMS = tl.constexpr(3)
"""Sums of a row: of squares of the gradient for clipping, and two for the rule."""

UNROLL = tl.constexpr(4)
"""Rows that are asked for at a time."""

# `ALIGN` is a number that the widths of all tables are multiples of: several elements are then read
# at once.


@triton.jit
def mixed(word):
    """All bits of a 64-bit word, mixed (SplitMix64's finalizer)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@triton.jit
def chance(key, row, columns):
    """32 random bits for each of `columns` of `row`, as in `crates/embedding/src/random.rs`."""
    of_row = (mixed(key ^ (row.to(tl.uint64) * 0x9E3779B97F4A7C15)) >> 32).to(tl.uint32)
    bits = of_row ^ (columns.to(tl.uint32) * 0x9E3779B9)
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def load_byte(at):
    """A byte as a number of 32 bits."""
    return tl.load(at).to(tl.uint32)


@triton.jit
def load_float(at):
    """A float32 at any address."""
    bits = load_byte(at) | (load_byte(at + 1) << 8)
    bits = bits | (load_byte(at + 2) << 16) | (load_byte(at + 3) << 24)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def floats(address):
    """The float32 numbers at an address, which torch allocated."""
    return tl.multiple_of(address.to(tl.pointer_type(tl.float32)), 16)


@triton.jit
def load_row(address, row, dim, columns, mask, KIND: tl.constexpr):
    """Elements of a row as float32; zeros where `mask` is not set."""
    if KIND == F32:
        return tl.load(floats(address) + row * dim + columns, mask=mask, other=0.0)
    elif KIND == F16:
        rows = tl.multiple_of(address.to(tl.pointer_type(tl.float16)), 16)
        return tl.load(rows + row * dim + columns, mask=mask, other=0.0).to(tl.float32)
    elif KIND == BF16:
        rows = tl.multiple_of(address.to(tl.pointer_type(tl.uint16)), 16)
        bits = tl.load(rows + row * dim + columns, mask=mask, other=0).to(tl.uint32) << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        stored = address.to(tl.pointer_type(tl.uint8)) + row * (dim + 8)
        scale, offset = load_float(stored + dim), load_float(stored + dim + 4)
        bytes_ = tl.load(stored + columns, mask=mask, other=0).to(tl.float32)
        return tl.where(mask, bytes_ * scale + offset, 0.0)


@triton.jit
def store_row(
    address, row, dim, columns, mask, value, key, whole_row, first_column,
    KIND: tl.constexpr, BY_CHANCE: tl.constexpr,
):  # fmt: skip
    """Writes elements of a row, rounded to nearest or by chance."""
    at = row * dim + columns
    if KIND == F32:
        tl.store(floats(address) + at, value, mask=mask)
    else:
        bits = value.to(tl.uint32, bitcast=True)
        if BY_CHANCE:
            drawn = chance(key, whole_row, first_column + columns)
        if KIND == F16:
            half = value.to(tl.float16).to(tl.uint16, bitcast=True)
            if BY_CHANCE:
                half = tl.where((bits & 0x7FFFFFFF) < 0x7F800000, half_by_chance(bits, drawn), half)
        else:
            half = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.uint16)
            half = tl.where(value == value, half, ((bits >> 16) | 0x40).to(tl.uint16))
            if BY_CHANCE:
                most = (bits & 0x7FFFFFFF) >= 0x7F7F0000
                finite = (bits & 0x7FFFFFFF) < 0x7F800000
                largest = ((bits >> 16) & 0x8000) | 0x7F7F
                moved = tl.where(most, largest, (bits + (drawn >> 16)) >> 16).to(tl.uint16)
                half = tl.where(finite, moved, half)
        rows = tl.multiple_of(address.to(tl.pointer_type(tl.uint16)), 16)
        tl.store(rows + at, half, mask=mask)


@triton.jit
def half_by_chance(bits, drawn):
    """The binary16 towards zero, or the next one if the dropped part exceeds the drawn bits."""
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude - (112 << 23) + (drawn >> 19)) >> 13
    normal = tl.where(normal < 0x7BFF, normal, 0x7BFF)
    # Small ones in units of 2^-24. 24 bits of chance are added below the point.
    small = magnitude.to(tl.float32, bitcast=True) * 16777216.0
    small = tl.where(magnitude < 0x38800000, small, 0.0)
    part = (drawn >> 8).to(tl.float32) * 5.9604644775390625e-08
    half = tl.where(magnitude >= 0x38800000, normal, (small + part).to(tl.uint32))
    return (((bits >> 16) & 0x8000) | half).to(tl.uint16)


@triton.jit
def of_vectors(tile, VECTORS: tl.constexpr, WIDTH: tl.constexpr):
    """[VECTORS, WIDTH] -> [WIDTH], added up in the order of vectors."""
    places = tl.arange(0, VECTORS)[:, None]
    total = tl.zeros([WIDTH], tl.float32)
    for vector in range(VECTORS):
        # One number that is not zero for each lane, so that the order of this sum does not matter.
        total += tl.sum(tl.where(places == vector, tile, 0.0), axis=0)
    return total


@triton.jit
def folded(numbers, HALF: tl.constexpr):
    """The upper half of a vector added to the lower one."""
    low, high = tl.split(tl.permute(tl.reshape(numbers, [2, HALF]), (1, 0)))
    return low + high


@triton.jit
def of_lanes(lanes):
    """The sum of 16 lanes, halves added to halves."""
    four = folded(folded(lanes, 8), 4)
    low, high = tl.split(folded(four, 2))
    return low + high


@triton.jit
def of_squares(tile, VECTORS: tl.constexpr):
    """The sum of the squares of [VECTORS, 64]: four vectors of 16 lanes in turn, then
    (first + second) + (third + fourth)."""
    lanes = tl.reshape(of_vectors(tile * tile, VECTORS, 64), [2, 2, 16])
    even, odd = tl.split(tl.permute(lanes, (0, 2, 1)))
    return of_lanes(folded(tl.reshape(even + odd, [32]), 16))


@triton.jit
def look_up(
    tables, features, starts, feature_of, indices, weights, out, samples, width, group,
    BLOCK: tl.constexpr, KIND: tl.constexpr, POOLED: tl.constexpr, WEIGHTED: tl.constexpr,
    ALIGN: tl.constexpr,
):  # fmt: skip
    """One bag (without pooling, one lookup) and `BLOCK` of its columns."""
    bag = tl.program_id(0)
    if POOLED:
        feature, at = bag // samples, bag % samples
        first, last = tl.load(starts + bag), tl.load(starts + bag + 1)
    else:
        feature, at = tl.load(feature_of + bag), bag
        first, last = bag, bag + 1
    facts = features + feature * FEATURE_FACTS
    table = tables + tl.load(facts + FEATURE_TABLE) * FACTS
    if tl.load(table + GROUP) != group:
        return
    address = tl.multiple_of(tl.load(table + ADDRESS), 16)
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < dim
    total = tl.zeros([BLOCK], tl.float32)
    for lookup in range(first, last, UNROLL):
        for ahead in tl.static_range(UNROLL):
            inside = lookup + ahead < last
            row = tl.load(indices + lookup + ahead, mask=inside, other=0).to(tl.int64)
            value = load_row(address, row, dim, columns, mask & inside, KIND)
            if WEIGHTED:
                value = value * tl.load(weights + lookup + ahead, mask=inside, other=0.0)
            total = total + value
    if POOLED:
        rows = last - first
        divided = (tl.load(facts + FEATURE_MEAN) != 0) & (rows > 1)
        share = tl.div_rn(1.0, tl.where(divided, rows, 1).to(tl.float32))
        total = total * share
        column = tl.load(facts + FEATURE_COLUMN)
    else:
        column = 0
    place = tl.multiple_of(at.to(tl.int64) * width + column, ALIGN)
    tl.store(out + place + columns, total, mask=mask)


@triton.jit
def gradient(
    sources, factors, grad, first, last, columns, mask, FACTORS: tl.constexpr, ALIGN: tl.constexpr
):  # fmt: skip
    """The sum of the gradients of sorted lookups, in their order."""
    total = tl.zeros(columns.shape, tl.float32)
    for lookup in range(first, last, UNROLL):
        for ahead in tl.static_range(UNROLL):
            inside = lookup + ahead < last
            source = tl.load(sources + lookup + ahead, mask=inside, other=0)
            source = tl.multiple_of(source, ALIGN)
            value = tl.load(grad + source + columns, mask=mask & inside, other=0.0)
            if FACTORS:
                value = value * tl.load(factors + lookup + ahead, mask=inside, other=0.0)
            total = total + value
    return total


@triton.jit
def tile_columns(VECTORS: tl.constexpr, WIDTH: tl.constexpr):
    """Columns of a row as [VECTORS, WIDTH]."""
    return tl.arange(0, VECTORS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]


@triton.jit
def add_up_chunks(
    tables, table_of, sources, factors, grad, first_of, last_of, partial, partial_width, group,
    CHUNK: tl.constexpr, VECTORS: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """One chunk of a row with many lookups, but not its first one. At most one starts in each
    `CHUNK` of the sorted lookups."""
    slot = tl.program_id(0)
    place = slot * CHUNK
    first, last = tl.load(first_of + slot), tl.load(last_of + place)
    start = first + tl.cdiv(place - first, CHUNK) * CHUNK
    if start == first or start >= last:
        return
    table = tables + tl.load(table_of + place) * FACTS
    if tl.load(table + GROUP) != group:
        return
    columns = tile_columns(VECTORS, 64)
    mask = columns < tl.multiple_of(tl.load(table + DIM), ALIGN)
    end = tl.minimum(start + CHUNK, last)
    total = gradient(sources, factors, grad, start, end, columns, mask, FACTORS, ALIGN)
    tl.store(partial + slot.to(tl.int64) * partial_width + columns, total, mask=mask)


@triton.jit
def moments(
    state, at, mask, grad, mean_kept, mean_new, square_kept, square_new, correction,
    root_correction, eps, STORE: tl.constexpr,
):  # fmt: skip
    """Adam's means with this gradient: stores them, if it is to, and returns their ratio."""
    mean_at = floats(tl.load(state)) + at
    square_at = floats(tl.load(state + 1)) + at
    mean = tl.load(mean_at, mask=mask, other=0.0) * mean_kept
    mean = mean + grad * mean_new
    square = tl.load(square_at, mask=mask, other=0.0) * square_kept
    square = square + grad * grad * square_new
    if STORE:
        tl.store(mean_at, mean, mask=mask)
        tl.store(square_at, square, mask=mask)
    root = tl.div_rn(tl.sqrt_rn(square), root_correction) + eps
    return tl.div_rn(tl.div_rn(mean, correction), root)


@triton.jit
def change_rows(
    tables, keys, table_of, last_of, sources, factors, grad, partial, partial_width, sums, group,
    rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
    correction, root_correction,
    CHUNK: tl.constexpr, VECTORS: tl.constexpr, KIND: tl.constexpr, RULE: tl.constexpr,
    FACTORS: tl.constexpr, CLIP_VALUE: tl.constexpr, CLIP_NORM: tl.constexpr,
    DECAY: tl.constexpr, KEEP: tl.constexpr, BY_CHANCE: tl.constexpr, NAMED: tl.constexpr,
    USE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Changes a row once, by the sum of its gradients: the program of its first sorted lookup.
    Or only takes its `sums`."""
    place = tl.program_id(0)
    key = tl.load(keys + place)
    if tl.load(keys + place - 1, mask=place > 0, other=-1) == key:
        return
    table = tables + tl.load(table_of + place) * FACTS
    if tl.load(table + GROUP) != group:
        return
    address = tl.multiple_of(tl.load(table + ADDRESS), 16)
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)
    row = key.to(tl.int64) - tl.load(table + FIRST_KEY)
    last = tl.load(last_of + place)
    columns = tile_columns(VECTORS, 64)
    mask = columns < dim
    end = tl.minimum(place + CHUNK, last)
    total = gradient(sources, factors, grad, place, end, columns, mask, FACTORS, ALIGN)
    for chunk in range(place + CHUNK, last, CHUNK):
        slot = (chunk // CHUNK) * partial_width
        total = total + tl.load(partial + slot + columns, mask=mask, other=0.0)
    if CLIP_VALUE:
        # Written so that what is not a number stays so.
        total = tl.where(clip_value < total, clip_value, total)
        total = tl.where(-clip_value > total, -clip_value, total)
    mine = sums + place.to(tl.int64) * SUMS
    whole = 0
    if USE != NO_SUMS:
        whole = tl.load(table + WHOLE)
    if USE == TAKE_CLIP:
        tl.store(mine, of_squares(total, VECTORS))
        return
    if CLIP_NORM:
        squares = of_squares(total, VECTORS)
        if USE != NO_SUMS:
            squares = tl.where(whole > 0, tl.load(mine), squares)
        norm = tl.sqrt_rn(squares)
        total = total * tl.where(norm > clip_norm, tl.div_rn(clip_norm, norm), 1.0)
    weights = load_row(address, row, dim, columns, mask, KIND)
    if DECAY:
        total = total + weights * decay
    state = table + STATE
    at = row * dim + columns
    if RULE == SGD:
        step = total * rate
    elif RULE == ADAGRAD:
        squares_at = floats(tl.load(state)) + at
        squares = tl.load(squares_at, mask=mask, other=1.0) + total * total
        tl.store(squares_at, squares, mask=mask)
        step = tl.div_rn(total * rate, tl.sqrt_rn(squares) + eps)
    elif RULE == ROW_WISE_ADAGRAD:
        sum_at = floats(tl.load(state)) + row
        added, over = of_squares(total, VECTORS), dim
        if USE == TAKE_RULE:
            tl.store(mine + 1, added)
            return
        if USE == GIVEN_SUMS:
            added = tl.where(whole > 0, tl.load(mine + 1), added)
            over = tl.where(whole > 0, whole, dim)
        squares = tl.load(sum_at) + tl.div_rn(added, over.to(tl.float32))
        tl.store(sum_at, squares)
        step = total * tl.div_rn(rate, tl.sqrt_rn(squares) + eps)
    else:
        ratio = moments(
            state, at, mask, total, mean_kept, mean_new, square_kept, square_new, correction,
            root_correction, eps, USE != TAKE_RULE,
        )  # fmt: skip
        ratio = tl.where(mask, ratio, 0.0)
        if RULE == LAMB:
            squares = tl.reshape(weights * weights, [VECTORS * 4, 16])
            lengths = of_lanes(of_vectors(squares, VECTORS * 4, 16))
            norms = of_squares(ratio, VECTORS)
            if USE == TAKE_RULE:
                tl.store(mine + 1, norms)
                tl.store(mine + 2, lengths)
                return
            if USE == GIVEN_SUMS:
                norms = tl.where(whole > 0, tl.load(mine + 1), norms)
                lengths = tl.where(whole > 0, tl.load(mine + 2), lengths)
            length, norm = tl.sqrt_rn(lengths), tl.sqrt_rn(norms)
            usable = (length > 0) & (norm > 0)
            trust = tl.where(usable, tl.div_rn(length, tl.where(usable, norm, 1.0)), 1.0)
            step = ratio * (rate * trust)
        else:
            step = ratio * rate
    if KEEP:
        weights = weights * keep
    name = row
    if NAMED:
        name = tl.load(tl.load(table + NAMES).to(tl.pointer_type(tl.int64)) + row)
    store_row(
        address, row, dim, columns, mask, weights - step,
        tl.load(table + CHANCE).to(tl.uint64), tl.load(table + FIRST_ROW) + name,
        tl.load(table + FIRST_COLUMN), KIND, BY_CHANCE,
    )  # fmt: skip


@triton.jit
def weight_gradients(
    tables, table_of, indices, sources, grad, out, group,
    VECTORS: tl.constexpr, KIND: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """The gradient of one lookup's weight: the product of its row with its bag's gradient."""
    lookup = tl.program_id(0)
    table = tables + tl.load(table_of + lookup) * FACTS
    if tl.load(table + GROUP) != group:
        return
    address = tl.multiple_of(tl.load(table + ADDRESS), 16)
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)
    columns = tile_columns(VECTORS, 16)
    mask = columns < dim
    row = tl.load(indices + lookup).to(tl.int64)
    weights = load_row(address, row, dim, columns, mask, KIND)
    source = tl.multiple_of(tl.load(sources + lookup), ALIGN)
    given = tl.load(grad + source + columns, mask=mask, other=0.0)
    tl.store(out + lookup, of_lanes(of_vectors(weights * given, VECTORS, 16)))


@triton.jit
def initial_weights(
    tables, keys, place, rows, bound, BLOCK: tl.constexpr, KIND: tl.constexpr
):  # fmt: skip
    """Uniform in plus or minus `bound`, each number drawn by its own counter."""
    table = tables + place * FACTS
    dim = tl.load(table + DIM)
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, column = number // dim, number % dim
    whole_row = tl.load(table + FIRST_ROW) + row
    key = tl.load(keys + place).to(tl.uint64)
    drawn = chance(key, whole_row, tl.load(table + FIRST_COLUMN) + column) >> 8
    # 24 bits, in the middles of their intervals.
    unit = (drawn.to(tl.float32) + 0.5) * 1.1920928955078125e-07 - 1.0
    address, mask = tl.load(table + ADDRESS), row < rows
    if KIND == I8:
        # A byte of 128 is zero.
        stored = address.to(tl.pointer_type(tl.uint8)) + row * (dim + 8) + column
        tl.store(stored, (unit * 127.0 + 128.5).to(tl.uint8), mask=mask)
    else:
        store_row(address, row, dim, column, mask, unit * bound, key, whole_row, 0, KIND, False)
