"""Text that shows what it holds: control and direction characters as escapes.

Names come from files of others. Raw, an escape character in one changes a terminal's title or
colours, and U+202E turns the rest of a line around (CVE-2021-42574)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RANGES = (
    (0x00, 0x08),  # controls, but for tab and line end
    (0x0B, 0x1F),
    (0x7F, 0x9F),  # delete, and the second set of controls
    (0x61C, 0x61C),  # marks and embeddings of direction
    (0x200E, 0x200F),
    (0x2028, 0x202E),
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),  # half a character, which no stream can encode
    (0xFEFF, 0xFEFF),
    (0xFFFE, 0xFFFF),
)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_ESCAPES = {code: _escape(code) for first, last in _RANGES for code in range(first, last + 1)}


def visible(text: str) -> str:
    """`text` with control characters, direction marks and lone surrogates as `\\x1b`, `\\u202e`;
    tabs stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPES)


def visible_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with every text in it made `visible`, keys too: charts abort the process on
    what XML forbids."""
    return {visible(key): _each(value) for key, value in data.items()}


def _each(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return visible_data(value)
    return [_each(each) for each in value] if isinstance(value, list | tuple) else value
