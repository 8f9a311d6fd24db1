"""Operations of a GPU on embedding tables: kernels in Triton.

Here: lookups, updates, initial weights. Not here: their launch, and what is checked first
(`gpu.py`).

The arithmetic is that of `train/crates/embedding`, operation by operation, and its order too:
multiplies and adds are not fused, quotients and roots are rounded to nearest, and sums over a row
are made in the lanes of a vector of 16. Nothing is added up atomically. So results have the bits of
the engine on processors, and those of every other run. One sum has another order: more than `CHUNK`
gradients of one row are added up in chunks, whose sums are added up.

A table's facts are int64 numbers, at these places:"""

# Kernels are not functions of Python: their arguments have the types of Triton.
# ruff: noqa: ANN001, ANN201, PLR0912, PLR0915
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from .gpu_rows import (
    I8,
    chance,
    floats,
    load_row,
    of_lanes,
    of_squares,
    of_vectors,
    row_at,
    store_row,
)

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
ROWS = tl.constexpr(11)
"""Rows of the table."""
FACTS = tl.constexpr(12)
"""Numbers of a table."""

FEATURE_TABLE = tl.constexpr(0)
"""A feature's table."""
FEATURE_COLUMN = tl.constexpr(1)
"""A feature's first column in the result."""
FEATURE_MEAN = tl.constexpr(2)
"""Whether a feature is the mean of its rows."""
FEATURE_FACTS = tl.constexpr(3)
"""Numbers of a feature."""

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether kernels run in Triton's interpreter, on the processor."""

SGD, ADAGRAD, ROW_WISE_ADAGRAD, ADAM, LAMB = (tl.constexpr(rule) for rule in range(5))
"""Rules of optimizers."""

NO_SUMS, GIVEN_SUMS, TAKE_CLIP, TAKE_RULE = (tl.constexpr(use) for use in range(4))
"""Uses of sums over rows in an update, where tables have some of their columns. There are none. It
uses those over whole rows. It only adds up its own columns, for clipping or for the rule."""
SUMS = tl.constexpr(3)
"""Sums of a row: of squares of the gradient for clipping, and two for the rule."""

NO_FACTORS, WEIGHTS, MEANS = (tl.constexpr(factor) for factor in range(3))
"""Factors of gradients: none, the weights of lookups, or one by the lookups of a bag, where a
feature is a mean."""

UNROLL_LONG = tl.constexpr(16)
"""Gradients that are asked for at a time, for one row."""
SHORT = tl.constexpr(32)
"""Most lookups of a row that is changed next to others. Longer ones are changed one by one."""
LARGEST = tl.constexpr(3.4028234663852886e38)
"""The largest float32."""

# `ALIGN` is a number that the widths of all tables are multiples of: several elements are then read
# at once. What loops change has 64 bits from the start: `place - place` is such a zero.


@triton.jit
def bags_at(tables, features, lengths, ends, bag, samples, bags, count, group):
    """Bags of features whose tables are in a group: whether they are, where their lookups begin
    and end, their features and their tables. What is wrong is cut off."""
    mine = bag < bags
    facts = features + (bag // samples) * FEATURE_FACTS
    table = tables + tl.load(facts + FEATURE_TABLE, mask=mine, other=0) * FACTS
    mine = mine & (tl.load(table + GROUP) == group)
    last = tl.load(ends + bag, mask=mine, other=0)
    first = last - tl.load(lengths + bag, mask=mine, other=0).to(tl.int64)
    first = tl.minimum(tl.maximum(first, 0), count)
    return mine, first, tl.minimum(tl.maximum(last, first), count), facts, table


@triton.jit
def check_bags(
    tables, features, lengths, ends, indices, weights, keys, bags_of, wrong, samples, bags, count,
    BAGS: tl.constexpr, LOOKUPS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Checks lengths, indices and weights of `BAGS` bags, and sets `wrong`. Notes the key and the
    bag of each lookup."""
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    length = tl.load(lengths + bag, mask=bag < bags, other=0).to(tl.int64)
    faulty = (length < 0) | (length > count) | (tl.load(ends + bags - 1) != count)
    tl.store(wrong + tl.zeros([BAGS], tl.int32), 1, mask=faulty)
    facts = features + (bag // samples) * FEATURE_FACTS
    table = tables + tl.load(facts + FEATURE_TABLE, mask=bag < bags, other=0) * FACTS
    rows, first_key = tl.load(table + ROWS)[:, None], tl.load(table + FIRST_KEY)[:, None]
    last = tl.load(ends + bag, mask=bag < bags, other=0)
    first = tl.minimum(tl.maximum(last - length, 0), count)
    last = tl.minimum(tl.maximum(last, first), count)[:, None]
    for place in range(0, tl.max(last - first[:, None]), LOOKUPS):
        at = first[:, None] + place + tl.arange(0, LOOKUPS)[None, :]
        inside = at < last
        row = tl.load(indices + at, mask=inside, other=0).to(tl.int64)
        right = (row >= 0) & (row < rows)
        if WEIGHTED:
            weight = tl.load(weights + at, mask=inside, other=0.0)
            right = right & (tl.abs(weight) <= LARGEST)
        tl.store(wrong + tl.zeros([BAGS, LOOKUPS], tl.int32), 1, mask=inside & ~right)
        tl.store(keys + at, first_key + row, mask=inside)
        tl.store(bags_of + at, tl.zeros([BAGS, LOOKUPS], tl.int32) + bag[:, None], mask=inside)


@triton.jit
def look_up(
    tables, features, lengths, ends, indices, weights, out, samples, bags, count, width, group,
    BAGS: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr,
    POOLED: tl.constexpr, WEIGHTED: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """`BAGS` bags, `UNROLL` lookups of each at a time, and `BLOCK` of their columns. It may begin
    before the host knows that the batch is right, so it does not look up what is wrong."""
    bag = tl.program_id(0) * BAGS + tl.arange(0, BAGS)
    mine, first, last, facts, table = bags_at(
        tables, features, lengths, ends, bag, samples, bags, count, group
    )
    address, rows = tl.load(table + ADDRESS)[:, None], tl.load(table + ROWS)
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (columns < dim) & mine[:, None]
    total = tl.zeros([BAGS, BLOCK], tl.float32)
    for place in range(0, tl.max(last - first), UNROLL):
        for ahead in tl.static_range(UNROLL):
            at = first + place + ahead
            inside = at < last
            row = tl.load(indices + at, mask=inside, other=0).to(tl.int64)
            some = mask & (inside & (row >= 0) & (row < rows))[:, None]
            value = load_row(address, row[:, None], dim, columns, some, KIND, ALIGN)
            if WEIGHTED:
                value = value * tl.load(weights + at, mask=inside, other=0.0)[:, None]
            if POOLED:
                total = total + value
            else:
                place_of = tl.multiple_of(at * width, ALIGN)[:, None]
                tl.store(out + place_of + columns, value, mask=some)
    if POOLED:
        rows_of = last - first
        divided = (tl.load(facts + FEATURE_MEAN, mask=mine, other=0) != 0) & (rows_of > 1)
        share = tl.div_rn(1.0, tl.where(divided, rows_of, 1).to(tl.float32))
        column = tl.load(facts + FEATURE_COLUMN, mask=mine, other=0)
        place_of = (bag % samples).to(tl.int64) * width + column
        place_of = tl.multiple_of(place_of, ALIGN)[:, None]
        tl.store(out + place_of + columns, total * share[:, None], mask=mask)


@triton.jit
def find_not_finite(numbers, count, wrong, BLOCK: tl.constexpr):
    """Sets `wrong` if one of `count` numbers is infinite or not a number."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(numbers + at, mask=at < count, other=0.0)
    tl.store(wrong + tl.zeros([BLOCK], tl.int32), 1, mask=~(tl.abs(number) <= LARGEST))


@triton.jit
def prepare(
    features, lengths, weights, keys, order, bags_of, sources, table_of, factors, rows,
    row_counts, long_rows, long_counts, samples, count, width,
    BLOCK: tl.constexpr, FACTORS: tl.constexpr, POOLED: tl.constexpr,
):  # fmt: skip
    """Where the gradients of sorted lookups begin, their tables, and what their gradients are
    multiplied with. Lists where rows begin in each block, and those with more than `SHORT`
    lookups."""
    block = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    at = block * BLOCK + places
    mask = at < count
    key = tl.load(keys + at, mask=mask, other=-1)
    first = mask & (tl.load(keys + at - 1, mask=mask & (at > 0), other=-1) != key)
    after = tl.load(keys + at + SHORT, mask=at + SHORT < count, other=-1)
    long = (first & (after == key)).to(tl.int32)
    short = first.to(tl.int32) - long
    begin = block * BLOCK - 1
    tl.store(rows + begin + tl.cumsum(short, axis=0), places, mask=short != 0)
    tl.store(row_counts + block, tl.sum(short, axis=0))
    begin = block * (BLOCK // SHORT) - 1
    tl.store(long_rows + begin + tl.cumsum(long, axis=0), places, mask=long != 0)
    tl.store(long_counts + block, tl.sum(long, axis=0))
    lookup = tl.load(order + at, mask=mask, other=0)
    bag = tl.load(bags_of + lookup, mask=mask, other=0)
    facts = features + (bag // samples) * FEATURE_FACTS
    if POOLED:
        source = (bag % samples).to(tl.int64) * width + tl.load(facts + FEATURE_COLUMN)
    else:
        source = lookup * width
    tl.store(sources + at, source, mask=mask)
    tl.store(table_of + at, tl.load(facts + FEATURE_TABLE), mask=mask)
    if FACTORS == WEIGHTS:
        tl.store(factors + at, tl.load(weights + lookup, mask=mask), mask=mask)
    elif FACTORS == MEANS:
        divided = mask & (tl.load(facts + FEATURE_MEAN) != 0)
        lookups = tl.where(divided, tl.load(lengths + bag), 1)
        factor = tl.div_rn(1.0, lookups.to(tl.float32))
        tl.store(factors + at, factor, mask=mask)


@triton.jit
def of_lookups(
    given, at, inside, columns, mask, FACTORS: tl.constexpr, ALIGN: tl.constexpr
):  # fmt: skip
    """Gradients of sorted lookups, [lanes, columns]; zeros where not `inside`."""
    sources, factors, grad = given
    source = tl.load(sources + at, mask=inside, other=0)
    first = tl.multiple_of(source[:, None], (ALIGN, ALIGN))
    value = tl.load(grad + first + columns, mask=mask & inside[:, None], other=0.0)
    if FACTORS != NO_FACTORS:
        value = value * tl.load(factors + at, mask=inside, other=0.0)[:, None]
    return value


@triton.jit
def of_long_row(
    given, first, last, columns, mask, FACTORS: tl.constexpr, ALIGN: tl.constexpr
):  # fmt: skip
    """The sum of the gradients of sorted lookups, in their order, [1, columns]."""
    total = tl.zeros(columns.shape, tl.float32)
    for place in range(first, last, UNROLL_LONG):
        for ahead in tl.static_range(UNROLL_LONG):
            at = place + ahead + tl.zeros([1], tl.int64)
            total = total + of_lookups(given, at, at < last, columns, mask, FACTORS, ALIGN)
    return total


@triton.jit
def end_of_key(keys, key, first, last):
    """The first place from `first` to `last` of a higher key. Most are near."""
    step = first - first + 8
    while first + step < last:
        if tl.load(keys + first + step) == key:
            first = first + step
            step = step * 2
        else:
            last = first + step
    while first < last:
        middle = (first + last) // 2
        if tl.load(keys + middle) == key:
            first = middle + 1
        else:
            last = middle
    return first


@triton.jit
def add_up_chunks(
    tables, keys, table_of, sources, factors, grad, wrong, partial, count, partial_width, group,
    CHUNK: tl.constexpr, VECTORS: tl.constexpr, FACTORS: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """One chunk of a row with many lookups, but not its first one. At most one starts in each
    `CHUNK` of the sorted lookups."""
    slot = tl.program_id(0).to(tl.int64)
    place = slot * CHUNK
    key = tl.load(keys + place)
    lane = place + tl.zeros([1], tl.int64)
    table = tables + tl.load(table_of + lane) * FACTS
    # More than `CHUNK` of a key reach half of that before the place, or behind it.
    near, far = place - CHUNK // 2, place + CHUNK // 2
    many = tl.load(keys + near, mask=near >= 0, other=-1) == key
    many = many | (tl.load(keys + far, mask=far < count, other=-1) == key)
    if (many & (tl.load(wrong) == 0)) == 0:
        return
    first, low = place, place - place
    while low < first:
        middle = (low + first) // 2
        if tl.load(keys + middle) == key:
            first = middle
        else:
            low = middle + 1
    last = end_of_key(keys, key, place, count + place - place)
    start = first + tl.cdiv(place - first, CHUNK) * CHUNK
    if start == first or start >= last:
        return
    columns = tl.arange(0, VECTORS * 64)[None, :]
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)[:, None]
    mask = (columns < dim) & (tl.load(table + GROUP) == group)[:, None]
    given = (sources, factors, grad)
    end = tl.minimum(start + CHUNK, last)
    total = of_long_row(given, start, end, columns, mask, FACTORS, ALIGN)
    tl.store(partial + slot * partial_width + columns, total, mask=mask)


@triton.jit
def moments(
    state, row, dim, columns, mask, grad, mean_kept, mean_new, square_kept, square_new, correction,
    root_correction, eps, STORE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Adam's means with these gradients: stores them, if it is to, and returns their ratios."""
    of_means, of_squares_ = tl.load(state)[:, None], tl.load(state + 1)[:, None]
    mean_at = row_at(of_means, row, dim, tl.float32, 4, ALIGN) + columns
    square_at = row_at(of_squares_, row, dim, tl.float32, 4, ALIGN) + columns
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
def change(
    table, place, row, mine, total, columns, sums, rule,
    VECTORS: tl.constexpr, KIND: tl.constexpr, RULE: tl.constexpr, CLIP_VALUE: tl.constexpr,
    CLIP_NORM: tl.constexpr, DECAY: tl.constexpr, KEEP: tl.constexpr, BY_CHANCE: tl.constexpr,
    NAMED: tl.constexpr, USE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Changes rows of tables by the `total` of their gradients, [lanes, columns], where `mine` is
    set. Or only takes their `sums`."""
    (
        rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
        correction, root_correction,
    ) = rule  # fmt: skip
    address = tl.load(table + ADDRESS)[:, None]
    dims = tl.multiple_of(tl.load(table + DIM), ALIGN)
    dim = dims[:, None]
    mask = (columns < dim) & mine[:, None]
    if CLIP_VALUE:
        # Written so that what is not a number stays so.
        total = tl.where(clip_value < total, clip_value, total)
        total = tl.where(-clip_value > total, -clip_value, total)
    of_row = sums + place * SUMS
    whole = tl.zeros(row.shape, tl.int64)
    if USE != NO_SUMS:
        whole = tl.load(table + WHOLE)
    if USE == TAKE_CLIP:
        tl.store(of_row, of_squares(total, VECTORS), mask=mine)
        return
    if CLIP_NORM:
        squares = of_squares(total, VECTORS)
        if USE != NO_SUMS:
            squares = tl.where(whole > 0, tl.load(of_row, mask=mine, other=0.0), squares)
        norm = tl.sqrt_rn(squares)
        clipped = norm > clip_norm
        scale = tl.div_rn(clip_norm, tl.where(clipped, norm, 1.0))
        total = total * tl.where(clipped, scale, 1.0)[:, None]
    weights = load_row(address, row[:, None], dim, columns, mask, KIND, ALIGN)
    if DECAY:
        total = total + weights * decay
    state = table + STATE
    if RULE == SGD:
        step = total * rate
    elif RULE == ADAGRAD:
        of_state = tl.load(state)[:, None]
        squares_at = row_at(of_state, row[:, None], dim, tl.float32, 4, ALIGN) + columns
        squares = tl.load(squares_at, mask=mask, other=1.0) + total * total
        tl.store(squares_at, squares, mask=mask)
        step = tl.div_rn(total * rate, tl.sqrt_rn(squares) + eps)
    elif RULE == ROW_WISE_ADAGRAD:
        sum_at = floats(tl.load(state)) + row
        before = tl.load(sum_at, mask=mine, other=1.0)
        added, over = of_squares(total, VECTORS), dims
        if USE == TAKE_RULE:
            tl.store(of_row + 1, added, mask=mine)
            return
        if USE == GIVEN_SUMS:
            added = tl.where(whole > 0, tl.load(of_row + 1, mask=mine, other=0.0), added)
            over = tl.where(whole > 0, whole, dims)
        squares = before + tl.div_rn(added, over.to(tl.float32))
        tl.store(sum_at, squares, mask=mine)
        step = total * tl.div_rn(rate, tl.sqrt_rn(squares) + eps)[:, None]
    else:
        ratio = moments(
            state, row[:, None], dim, columns, mask, total, mean_kept, mean_new, square_kept,
            square_new, correction, root_correction, eps, USE != TAKE_RULE, ALIGN,
        )  # fmt: skip
        ratio = tl.where(mask, ratio, 0.0)
        if RULE == LAMB:
            squares = tl.reshape(weights * weights, [total.shape[0], VECTORS * 4, 16])
            lengths = of_lanes(of_vectors(squares, VECTORS * 4))
            norms = of_squares(ratio, VECTORS)
            if USE == TAKE_RULE:
                tl.store(of_row + 1, norms, mask=mine)
                tl.store(of_row + 2, lengths, mask=mine)
                return
            if USE == GIVEN_SUMS:
                norms = tl.where(whole > 0, tl.load(of_row + 1, mask=mine, other=0.0), norms)
                lengths = tl.where(whole > 0, tl.load(of_row + 2, mask=mine, other=0.0), lengths)
            length, norm = tl.sqrt_rn(lengths), tl.sqrt_rn(norms)
            usable = (length > 0) & (norm > 0)
            trust = tl.where(usable, tl.div_rn(length, tl.where(usable, norm, 1.0)), 1.0)
            step = ratio * (rate * trust)[:, None]
        else:
            step = ratio * rate
    if KEEP:
        weights = weights * keep
    name = row
    if NAMED:
        names = tl.load(table + NAMES).to(tl.pointer_type(tl.int64))
        name = tl.load(names + row, mask=mine, other=0)
    store_row(
        address, row[:, None], dim, columns, mask, weights - step,
        tl.load(table + CHANCE).to(tl.uint64)[:, None],
        (tl.load(table + FIRST_ROW) + name)[:, None],
        tl.load(table + FIRST_COLUMN)[:, None], KIND, BY_CHANCE, ALIGN,
    )  # fmt: skip


@triton.jit
def change_rows(
    tables, keys, table_of, sources, factors, grad, wrong, sums, count, group,
    rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
    correction, root_correction, rows, row_counts,
    BLOCK: tl.constexpr, LANES: tl.constexpr, VECTORS: tl.constexpr, KIND: tl.constexpr,
    RULE: tl.constexpr, FACTORS: tl.constexpr, CLIP_VALUE: tl.constexpr, CLIP_NORM: tl.constexpr,
    DECAY: tl.constexpr, KEEP: tl.constexpr, BY_CHANCE: tl.constexpr, NAMED: tl.constexpr,
    USE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Changes each row once, by the sum of its gradients: those with at most `SHORT` lookups that
    begin in a block of `prepare`, `LANES` at a time."""
    if tl.load(wrong) != 0:
        return
    block = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, VECTORS * 64)[None, :]
    given = (sources, factors, grad)
    rule = (
        rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
        correction, root_correction,
    )  # fmt: skip
    found = tl.load(row_counts + block)
    for number in range(0, found, LANES):
        lanes = number + tl.arange(0, LANES)
        there = lanes < found
        place = block * BLOCK + tl.load(rows + block * BLOCK + lanes, mask=there, other=0)
        key = tl.load(keys + place, mask=there, other=-1).to(tl.int64)
        table = tables + tl.load(table_of + place, mask=there, other=0) * FACTS
        mine = there & (tl.load(table + GROUP) == group)
        mask = columns < tl.multiple_of(tl.load(table + DIM), ALIGN)[:, None]
        total = 0.0 + of_lookups(given, place, mine, columns, mask, FACTORS, ALIGN)
        at = place + 1
        more = mine & (tl.load(keys + at, mask=at < count, other=-1) == key)
        while tl.max(more.to(tl.int32)) != 0:
            total = total + of_lookups(given, at, more, columns, mask, FACTORS, ALIGN)
            at = at + 1
            more = more & (tl.load(keys + at, mask=at < count, other=-1) == key)
        row = tl.where(mine, key - tl.load(table + FIRST_KEY), 0)
        change(
            table, place, row, mine, total, columns, sums, rule, VECTORS, KIND, RULE, CLIP_VALUE,
            CLIP_NORM, DECAY, KEEP, BY_CHANCE, NAMED, USE, ALIGN,
        )  # fmt: skip


@triton.jit
def change_long_rows(
    tables, keys, table_of, sources, factors, grad, wrong, sums, count, group,
    rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
    correction, root_correction, long_rows, long_counts, partial, partial_width,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr, VECTORS: tl.constexpr, KIND: tl.constexpr,
    RULE: tl.constexpr, FACTORS: tl.constexpr, CLIP_VALUE: tl.constexpr, CLIP_NORM: tl.constexpr,
    DECAY: tl.constexpr, KEEP: tl.constexpr, BY_CHANCE: tl.constexpr, NAMED: tl.constexpr,
    USE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """As `change_rows`, rows with more than `SHORT` lookups, whose first lookup is in one of the
    blocks of `prepare` that are this program's."""
    if tl.load(wrong) != 0:
        return
    columns = tl.arange(0, VECTORS * 64)[None, :]
    given = (sources, factors, grad)
    rule = (
        rate, decay, keep, clip_value, clip_norm, eps, mean_kept, mean_new, square_kept, square_new,
        correction, root_correction,
    )  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    for block in range(program, tl.cdiv(count, BLOCK), tl.num_programs(0)):
        for number in range(tl.load(long_counts + block)):
            first = tl.load(long_rows + block * (BLOCK // SHORT) + number).to(tl.int64)
            first = block * BLOCK + first
            key = tl.load(keys + first)
            lane = first + tl.zeros([1], tl.int64)
            table = tables + tl.load(table_of + lane) * FACTS
            mine = tl.load(table + GROUP) == group
            if tl.max(mine.to(tl.int32)) != 0:
                last = end_of_key(keys, key, first + SHORT + 1, count + first - first)
                mask = columns < tl.multiple_of(tl.load(table + DIM), ALIGN)[:, None]
                end = tl.minimum(first + CHUNK, last)
                total = of_long_row(given, first, end, columns, mask, FACTORS, ALIGN)
                for chunk in range(first + CHUNK, last, CHUNK):
                    at = (chunk // CHUNK) * partial_width
                    total = total + tl.load(partial + at + columns, mask=mask, other=0.0)
                row = key.to(tl.int64) - tl.load(table + FIRST_KEY)
                change(
                    table, lane, row, mine, total, columns, sums, rule, VECTORS, KIND, RULE,
                    CLIP_VALUE, CLIP_NORM, DECAY, KEEP, BY_CHANCE, NAMED, USE, ALIGN,
                )  # fmt: skip


@triton.jit
def weight_gradients(
    tables, table_of, indices, sources, grad, out, group,
    VECTORS: tl.constexpr, KIND: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """The gradient of one lookup's weight: the product of its row with its bag's gradient."""
    lookup = tl.program_id(0) + tl.zeros([1], tl.int64)
    table = tables + tl.load(table_of + lookup) * FACTS
    mine = tl.load(table + GROUP) == group
    if tl.max(mine.to(tl.int32)) == 0:
        return
    dim = tl.multiple_of(tl.load(table + DIM), ALIGN)[:, None]
    columns = tl.arange(0, VECTORS * 16)[None, :]
    mask = columns < dim
    row = tl.load(indices + lookup).to(tl.int64)[:, None]
    address = tl.load(table + ADDRESS)[:, None]
    weights = load_row(address, row, dim, columns, mask, KIND, ALIGN)
    source = tl.multiple_of(tl.load(sources + lookup)[:, None], (ALIGN, ALIGN))
    given = tl.load(grad + source + columns, mask=mask, other=0.0)
    products = tl.reshape(weights * given, [1, VECTORS, 16])
    tl.store(out + lookup, of_lanes(of_vectors(products, VECTORS)))


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
        store_row(
            address, row, dim, column, mask, unit * bound, key, whole_row, 0, KIND, False, 1
        )  # fmt: skip
