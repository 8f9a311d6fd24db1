"""Float32 numbers on their way between ranks, as bytes of another format.

Here: encoding and decoding. Not here: which exchange has which format (`model/messages.py`), what
rows consist of (`message_rows.py`), the exchanges (`exchange.py`).

Model. An array is a sequence of blocks, each of rows [rows, width]. A row is a sequence of
segments, the pooled rows of tables. A segment of 8 bits has one scale s:

    int8   s = max|x| / 127    q = round(x / s)             |x - s q| <= s / 2
    fp8    s = max|x| / 448    q = nearest of E4M3(x / s)   |x - s q| <= max(|x| 2^-4, s 2^-10)

plus the roundings of float32. Rows of zeros stay zeros. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .message_rows import Block, Segment

_HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
_LARGEST = {"int8": 127.0, "fp8": 448.0}


def encode(values: Tensor, blocks: Sequence[Block]) -> Tensor:
    """The bytes of float32 `values`, uint8."""
    count = sum(block.bytes for block in blocks)
    out = torch.empty(count, dtype=torch.uint8, device=values.device)
    at = begin = 0
    for block in blocks:
        if block.rows and block.elements:
            source = values[at : at + block.elements].view(block.rows, -1)
            into = out[begin : begin + block.bytes].view(block.rows, -1)
            column = byte = 0
            for segment in block.row:
                part = source[:, column : column + segment.elements]
                into[:, byte : byte + segment.bytes] = _packed(part, segment)
                column, byte = column + segment.elements, byte + segment.bytes
        at, begin = at + block.elements, begin + block.bytes
    return out


def decode(data: Tensor, blocks: Sequence[Block], into: Tensor) -> Tensor:
    """The float32 numbers that `encode` made `data` of, in `into`."""
    at = begin = 0
    for block in blocks:
        if block.rows and block.elements:
            target = into[at : at + block.elements].view(block.rows, -1)
            source = data[begin : begin + block.bytes].view(block.rows, -1)
            column = byte = 0
            for segment in block.row:
                part = source[:, byte : byte + segment.bytes]
                target[:, column : column + segment.elements] = _unpacked(part, segment)
                column, byte = column + segment.elements, byte + segment.bytes
        at, begin = at + block.elements, begin + block.bytes
    return into


def _packed(values: Tensor, segment: Segment) -> Tensor:
    """[rows, elements] as bytes [rows, bytes]."""
    rows, format_ = len(values), segment.format
    if format_ not in _LARGEST:
        return _own(values.to(_HALVES.get(format_, torch.float32))).view(torch.uint8)
    parts = values.reshape(rows, segment.times, segment.width)
    scale = parts.abs().amax(2, keepdim=True) / _LARGEST[format_]
    scaled = torch.where(scale > 0, parts / scale, 0.0)
    limit = _LARGEST[format_]
    scaled = scaled.clamp_(-limit, limit)
    small = scaled.round_().to(torch.int8) if format_ == "int8" else scaled.to(torch.float8_e4m3fn)
    return torch.cat((scale.view(torch.uint8), small.view(torch.uint8)), 2).view(rows, -1)


def _unpacked(data: Tensor, segment: Segment) -> Tensor:
    """Bytes [rows, bytes] as float32 [rows, elements]."""
    rows, format_ = len(data), segment.format
    if format_ not in _LARGEST:
        return _own(data).view(_HALVES.get(format_, torch.float32)).to(torch.float32)
    parts = data.reshape(rows, segment.times, 4 + segment.width)
    scale = _own(parts[:, :, :4]).view(torch.float32)
    small = _own(parts[:, :, 4:])
    type_ = torch.int8 if format_ == "int8" else torch.float8_e4m3fn
    return (small.view(type_).to(torch.float32) * scale).view(rows, -1)


def _own(data: Tensor) -> Tensor:
    """A copy that begins where any type may: `contiguous` returns single rows as they are."""
    return data.clone(memory_format=torch.contiguous_format)
