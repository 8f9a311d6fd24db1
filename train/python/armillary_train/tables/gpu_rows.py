"""Rows of embedding tables in kernels of Triton: reading, writing, rounding, sums over a row.

Here: what one row is. Not here: which rows, and what is done with them (`gpu_kernels.py`)."""

# Kernels are not functions of Python: their arguments have the types of Triton.
# ruff: noqa: ANN001, ANN201, PLR0124
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

F32, F16, BF16, I8 = (tl.constexpr(kind) for kind in range(4))
"""Types of elements."""


@triton.jit
def mixed(word):
    """All bits of a 64-bit word, mixed (SplitMix64's finalizer)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB
    return word ^ (word >> 31)


@triton.jit
def chance(key, row, columns):
    """32 random bits for each of `columns` of `row`, as in `random.rs` of the engine."""
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
    """The float32 numbers at an address."""
    return address.to(tl.pointer_type(tl.float32))


@triton.jit
def row_at(address, row, dim, TYPE: tl.constexpr, BYTES: tl.constexpr, ALIGN: tl.constexpr):
    """Where rows of `dim` elements begin, in memory that torch allocated. Says how those of
    [lanes, 1] are aligned, so that several elements are read at once."""
    first = address.to(tl.pointer_type(TYPE)) + row * dim
    if len(first.shape) == 2:
        bytes_: tl.constexpr = min(ALIGN * BYTES, 16)
        return tl.multiple_of(first, (bytes_, bytes_))
    else:
        return first


@triton.jit
def load_row(address, row, dim, columns, mask, KIND: tl.constexpr, ALIGN: tl.constexpr):
    """Elements of rows as float32, [lanes, columns]; zeros where `mask` is not set."""
    if KIND == F32:
        first = row_at(address, row, dim, tl.float32, 4, ALIGN)
        return tl.load(first + columns, mask=mask, other=0.0)
    elif KIND == F16:
        first = row_at(address, row, dim, tl.float16, 2, ALIGN)
        return tl.load(first + columns, mask=mask, other=0.0).to(tl.float32)
    elif KIND == BF16:
        first = row_at(address, row, dim, tl.uint16, 2, ALIGN)
        bits = tl.load(first + columns, mask=mask, other=0).to(tl.uint32) << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        stored = address.to(tl.pointer_type(tl.uint8)) + row * (dim + 8)
        scale, offset = load_float(stored + dim), load_float(stored + dim + 4)
        bytes_ = tl.load(stored + columns, mask=mask, other=0).to(tl.float32)
        return tl.where(mask, bytes_ * scale + offset, 0.0)


@triton.jit
def store_row(
    address, row, dim, columns, mask, value, key, whole_row, first_column,
    KIND: tl.constexpr, BY_CHANCE: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Writes elements of rows, rounded to nearest or by chance."""
    if KIND == F32:
        tl.store(row_at(address, row, dim, tl.float32, 4, ALIGN) + columns, value, mask=mask)
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
        tl.store(row_at(address, row, dim, tl.uint16, 2, ALIGN) + columns, half, mask=mask)


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


# Sums over two numbers, or over one that is not zero, do not depend on their order.


@triton.jit
def of_vectors(tile, VECTORS: tl.constexpr):
    """[lanes, VECTORS, width] -> [lanes, width], added up in the order of vectors from zero on."""
    if VECTORS <= 2:
        return tl.sum(tile + 0.0, axis=1)
    else:
        places = tl.arange(0, VECTORS)[None, :, None]
        total = tl.zeros([tile.shape[0], tile.shape[2]], tl.float32)
        for vector in range(VECTORS):
            total += tl.sum(tl.where(places == vector, tile, 0.0), axis=1)
        return total


@triton.jit
def folded(numbers, HALF: tl.constexpr):
    """The upper halves of vectors added to the lower ones."""
    return tl.sum(tl.reshape(numbers, [numbers.shape[0], 2, HALF]), axis=1)


@triton.jit
def of_lanes(numbers):
    """[lanes, 16] -> [lanes], halves added to halves."""
    return tl.sum(folded(folded(folded(numbers, 8), 4), 2), axis=1)


@triton.jit
def of_squares(tile, VECTORS: tl.constexpr):
    """Sums of the squares of rows: four vectors of 16 lanes in turn, then
    (first + second) + (third + fourth)."""
    lanes: tl.constexpr = tile.shape[0]
    squares = of_vectors(tl.reshape(tile * tile, [lanes, VECTORS, 64]), VECTORS)
    pairs = tl.sum(tl.reshape(squares, [lanes, 2, 2, 16]), axis=2)
    return of_lanes(tl.sum(pairs, axis=1))
