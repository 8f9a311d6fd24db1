"""Text from outside made fit for a page, a drawing or a file: without characters that break what shows it.

Here: one function for all names, and the same over nested data. Not here: escaping (`markup.py`).
Source: XML 1.0, section 2.2 (Char); Unicode 16, table 23-3 (directional overrides and isolates).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""What XML forbids, other control characters, halves of surrogate pairs, and marks that turn the text's direction."""
_INSTEAD = "\ufffd"


def clean(text: str) -> str:
    """The text with a replacement character for each one that no drawing, page or terminal can show."""
    return _UNFIT.sub(_INSTEAD, text)


def cleaned(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with every text in it cleaned, keys too."""
    return {clean(key): _each(value) for key, value in data.items()}


def _each(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return cleaned(value)
    return [_each(each) for each in value] if isinstance(value, list | tuple) else value
