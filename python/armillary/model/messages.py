"""Numbers as they are sent between ranks: which format each exchange of training has.

Here: formats as data, for the trainer (`armillary_train/ranks/number_formats.py` converts) and for
simulated workloads. A row of 8-bit numbers is sent with its scale, a 32-bit number.

    fp32, fp16, bf16   4, 2 and 2 bytes of an element
    int8               1 byte of an element, 4 of a row; q = round(x 127 / max|x|)
    fp8                the same with 4 bits of exponent and 3 of mantissa, max|x| at 448

Source: Mudigere et al., Neo and ZionEX, ISCA 2022, section 8.4 (fp16 forward, bf16 backward)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple, get_args

from ..errors import InputError, Problem

Format = Literal["fp32", "fp16", "bf16", "int8", "fp8"]

FORMATS: tuple[Format, ...] = get_args(Format)


class Width(NamedTuple):
    """Bytes on the wire."""

    element: int
    row: int
    """Additional bytes of each row."""

    def bytes(self, elements: int, rows: int) -> int:
        """Bytes of `elements` in `rows`."""
        return elements * self.element + rows * self.row


WIDTHS: dict[Format, Width] = {
    "fp32": Width(4, 0),
    "fp16": Width(2, 0),
    "bf16": Width(2, 0),
    "int8": Width(1, 4),
    "fp8": Width(1, 4),
}

GRADIENT_ROW = 512
"""Numbers with one scale in the gradients of MLPs, which have no rows of their own."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The format of each exchange."""

    forward: Format = "fp32"
    """Pooled rows, to the ranks of their samples (all-to-all)."""
    backward: Format = "fp32"
    """Gradients of pooled rows, to the shards (all-to-all, all-gather), and of copied tables."""
    reduce_scatter: Format = "fp32"
    """Pooled rows of tables that are cut by rows, which are added up where they arrive."""
    all_reduce: Format = "fp32"
    """Gradients of the MLPs."""

    @property
    def text(self) -> str:
        """All exchanges as `parse` reads them."""
        return ",".join(
            f"{each.name.replace('_', '-')}={getattr(self, each.name)}" for each in fields(self)
        )

    @classmethod
    def parse(cls, text: str, place: str = "messages") -> Messages:
        """Reads `forward=fp16,backward=bf16`; what is not named is sent as fp32. Raises
        `InputError`."""
        return cls(**cls.named(text, place))

    @classmethod
    def named(cls, text: str, place: str = "messages") -> dict[str, Format]:
        """The exchanges that `forward=fp16,backward=bf16` names. Raises `InputError`."""
        names = [each.name.replace("_", "-") for each in fields(cls)]
        found, problems = dict[str, Format](), []
        for part in text.replace(" ", "").split(","):
            name, _, value = part.partition("=")
            if name not in names:
                problems.append(Problem("", place, f"unknown exchange {name!r}", ", ".join(names)))
            elif name.replace("-", "_") in found:
                problems.append(Problem("", place, f"{name!r} is named twice", "each once"))
            elif value not in FORMATS:
                said = f"unknown format of {name}: {value!r}"
                problems.append(Problem("", place, said, ", ".join(FORMATS)))
            else:
                found[name.replace("-", "_")] = value
        if problems:
            raise InputError(problems)
        return found
