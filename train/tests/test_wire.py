"""Formats of messages: their errors by the format's definition, their bytes, and what they leave as
it is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary.errors import InputError
from armillary.model.messages import FORMATS, Format, Messages
from armillary_train.ranks.message_rows import Block, row
from armillary_train.ranks.number_formats import decode, encode

numbers = st.floats(-(2.0**40), 2.0**40, width=32, allow_subnormal=False)


def again(values: torch.Tensor, blocks: list[Block]) -> torch.Tensor:
    data = encode(values, blocks)
    assert data.numel() == sum(block.bytes for block in blocks)
    assert torch.equal(data, encode(values, blocks))
    return decode(data, blocks, torch.empty_like(values))


def bound(values: torch.Tensor, format_: Format) -> torch.Tensor:
    """Largest error of each number of a row [width], by the format: half of a unit in the last
    place. 8 bits: scale and product are rounded too, each by 2^-24 of the largest, or by half of
    the smallest number of float32."""
    size, most = values.double().abs(), values.double().abs().max()
    rounding = most * 2.0**-22 + 448 * 2.0**-149
    if format_ == "int8":
        return most / 127 / 2 + rounding + size * 0
    if format_ == "fp8":
        return torch.maximum(size * 2.0**-4, most / 448 * 2.0**-10) + rounding
    if format_ == "fp16":
        return torch.maximum(size * 2.0**-11, torch.tensor(2.0**-25))
    return size * {"bf16": 2.0**-8, "fp32": 0.0}[format_]


@pytest.mark.parametrize("format_", FORMATS)
@settings(max_examples=usually(30, 600), deadline=None)
@given(rows=st.lists(st.lists(numbers, min_size=5, max_size=5), min_size=1, max_size=4))
def test_errors_are_below_the_bounds_of_the_format(
    format_: Format, rows: list[list[float]]
) -> None:
    values = torch.tensor(rows, dtype=torch.float32)
    if format_ == "fp16":
        values = values.clamp(-65504, 65504)
    found = again(values.view(-1), [Block(len(rows), row([(5, format_)]))]).view(-1, 5)
    for one, other in zip(values, found, strict=True):
        assert bool(((one.double() - other.double()).abs() <= bound(one, format_)).all())


def test_rows_of_segments_of_all_formats() -> None:
    """Each pooled row has its own scale: a large table does not take the bits of a small one."""
    generator = torch.Generator().manual_seed(1)
    widths: list[tuple[int, Format]] = [
        *((8, "int8"), (8, "int8"), (4, "int8")),
        *((3, "fp32"), (8, "fp8"), (2, "fp16"), (6, "fp16"), (5, "bf16")),
    ]
    blocks = [Block(7, row(widths)), Block(0, row(widths)), Block(2, row([(3, "int8")]))]
    assert blocks[0].bytes == 7 * (2 * 12 + 8 + 12 + 12 + 4 + 12 + 10)
    values = torch.randn(sum(block.elements for block in blocks), generator=generator)
    sizes = [width for width, _ in widths]
    for place, part in enumerate(torch.split(values[: 7 * 44].view(7, 44), sizes, 1)):
        part.mul_(10.0 ** (place % 4))
    found = again(values, blocks)
    ours, theirs = (torch.split(each[: 7 * 44].view(7, 44), sizes, 1) for each in (values, found))
    for (_, format_), one, other in zip(widths, ours, theirs, strict=True):
        for sent, received in zip(one, other, strict=True):
            error = (sent.double() - received.double()).abs()
            assert bool((error <= bound(sent, format_)).all())


def test_zeros_stay_zeros_and_fp32_keeps_every_bit() -> None:
    for format_ in FORMATS:
        zeros = torch.zeros(12)
        assert torch.equal(again(zeros, [Block(3, row([(4, format_)]))]), zeros)
    values = torch.tensor([1e-45, -0.0, 3.4e38, 1 / 3])
    assert torch.equal(again(values, [Block(1, row([(4, "fp32")]))]), values)


def test_messages_are_read_from_text() -> None:
    found = Messages.parse("forward=fp16, backward=bf16,reduce-scatter=int8")
    assert found == Messages("fp16", "bf16", "int8", "fp32")
    for text, said in (
        ("forward=fp4", r"unknown format of forward: 'fp4' \(allowed: fp32, fp16"),
        ("sideways=int8", r"unknown exchange 'sideways' \(allowed: forward, backward, reduce-s"),
        ("", "unknown exchange ''"),
    ):
        with pytest.raises(InputError, match=said):
            Messages.parse(text)
