"""Sizes as users write them, in options, Python and files: a number of bytes, or with a unit."""

from __future__ import annotations

import re

from . import nccl, units
from .errors import InputError, Problem

ALLOWED = "whole bytes, such as 64, 64K, 4 KiB or 1 MB"
"""Sizes that are allowed, in words."""


def byte_count(given: str | int, place: str) -> int:
    """Bytes of `64`, `4 KiB`, `1 MB`, or of `64K` as nccl-tests reads it. A part of a byte
    of `1.3 GiB` does not count. Raises `InputError`."""
    plain = str(given).strip()
    if re.fullmatch(r"\d{1,15}(\.\d{0,9})?\s*[kmgt]", plain, re.IGNORECASE):
        return nccl.size_bytes(plain, place)
    if re.fullmatch(r"\d{1,18}", plain):
        return int(plain)
    parted, count = units.split(plain), units.base(plain)
    if parted is None or count is None or parted[1][-1] != "B" or count < 1:
        raise InputError([Problem("", place, f'invalid size: "{given}"', ALLOWED)])
    if parted[1] == "B" and count != int(count):
        raise InputError([Problem("", place, f'invalid size: "{given}"', ALLOWED)])
    return int(count)
