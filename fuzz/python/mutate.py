"""Damage: bytes, lines and JSON values changed, so that most of a document still reads.

Deterministic: the same `random.Random` gives the same damage.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

TOKENS = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1",
    b"0",
    b"true",
    b"null",
    b'""',
    b'"\\ud800"',
    b"\\u0000",
    b"\x1b[31m",
    b"\x00",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"9" * 5000,
    b"18446744073709551616",
    b"1" * 400,
    b"[" * 300,
    b'{"a":' * 300,
    b"- " * 300,
    b".inf",
    b".nan",
    b"!!binary",
    b"&a",
    b"*a",
    b"<<: ",
    b"0x",
    b"2001-01-01",
    b"1_000",
    b"\xd9\xa3",
    b",",
    b"\n",
    b"\r",
    b": ",
    b"#",
    b"'",
    b'"',
    b"%",
    b"1e-400",
    b"./",
    b"/dev/null",
    b"../..",
]
"""Values that have broken readers."""
JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    7,
    2**31,
    2**53,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    0.5,
    -0.0,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1",
    "-1",
    "1 GB/s",
    "0 us",
    "[0, 1]",
    "\ud800",
    "\x1b",
    "\0",
    "a" * 300,
    [],
    {},
    [1],
    [[]],
    [None],
    {"a": 1},
    {"": {}},
    "nan",
    "1e999",
    "\u202e",
    "\u0663",
]
_SCALARS = [
    "",
    "-1",
    "0",
    "1e9",
    "1e999",
    ".inf",
    ".nan",
    "null",
    "true",
    "x",
    "[]",
    "{}",
    "[1, [2]]",
    "{a: {b: 1}}",
    "9" * 40,
    "9" * 400,
    "'",
    "2001-01-01",
    "1 GB/s",
    "-5 us",
    "1:30",
    "0.1",
    "~",
    "\u0663",
    "*x",
    "&x 1",
]
_DIGITS = re.compile(rb"[0-9]+")
_NUMBERS = [
    b"9" * 5000,
    b"9" * 40,
    b"0" * 5000 + b"1",
    "\u00b2".encode(),
    "\u0663".encode(),
    b"-1",
    b"0",
    b"1e999",
    b"0x10",
    b"1_0",
    b"1.5",
    b"18446744073709551615",
    b"",
]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to four places changed, in one of the ways below."""
    way = chance.choice([_bytes, _bytes, _lines, _number, _json, _json, _json])
    for _ in range(chance.choice([1, 1, 2, 4])):
        data = way(data, chance)
    return data


def _bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice([0, 0, 1, 1, 4, 30, 1000]))
    some = chance.choice(
        [
            b"",
            chance.choice(TOKENS),
            chance.choice(TOKENS),
            bytes([chance.randrange(256)]),
            data[at:end] * 2,
        ]
    )
    return data[:at] + some + data[end:]


def _lines(data: bytes, chance: random.Random) -> bytes:
    """A line's value, place, indentation or number changed: YAML, CSV and logs."""
    lines = data.split(b"\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    line = lines[at]
    match chance.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, line)
        case 2:
            lines[at], lines[to] = lines[to], line
        case 3:
            lines[at] = b" " * chance.randrange(5) + line.lstrip()
        case 4:
            lines[at] = (
                line.replace(b" ", b",")
                if chance.random() < 0.5
                else line[: chance.randrange(len(line) + 1)]
            )
        case _:
            key, colon, _ = line.partition(b": ")
            lines[at] = key + (colon or b": ") + chance.choice(_SCALARS).encode()
    return b"\n".join(lines)


def _number(data: bytes, chance: random.Random) -> bytes:
    """The digits of one number replaced by others: too many, of another script, or none."""
    found = list(_DIGITS.finditer(data))
    if not found:
        return _bytes(data, chance)
    digits = chance.choice(found)
    return data[: digits.start()] + chance.choice(_NUMBERS) + data[digits.end() :]


def _json(data: bytes, chance: random.Random) -> bytes:
    """A value somewhere in a document, or in one line of a journal, replaced, taken out, doubled or
    wrapped."""
    lines = data.split(b"\n")
    at = 0
    try:
        value = json.loads(data)
        lines = [data]
    except (ValueError, RecursionError):
        at = chance.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except (ValueError, RecursionError):
            return _lines(data, chance)
    lines[at] = json.dumps(_changed(value, chance)).encode()
    return b"\n".join(lines)


def _changed(value: Any, chance: random.Random) -> Any:  # noqa: ANN401
    inside = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    if not inside or chance.random() < 0.1:
        return _junk(value, chance)
    key = chance.choice(inside)
    if chance.random() < 0.75 and isinstance(value[key], (dict, list)):
        value[key] = _changed(value[key], chance)
    elif chance.random() < 0.2:
        del value[key]
    elif isinstance(value, dict) and chance.random() < 0.1:
        value[chance.choice(["", "x", str(key).upper(), "\ud800", "1"])] = value.pop(key)
    else:
        value[key] = _junk(value[key], chance)
    return value


def _junk(value: Any, chance: random.Random) -> Any:  # noqa: ANN401
    if isinstance(value, (int, float)) and not isinstance(value, bool) and chance.random() < 0.4:
        return chance.choice([-value, value + 1, value * 1000, value * 10**18, str(value)])
    if isinstance(value, str) and chance.random() < 0.3:
        return chance.choice(
            [value + "\x1b", value.upper(), value[:-1], value * 50, value + "\ud800"]
        )
    return (
        chance.choice([[value], {"a": value}, [value, value]])
        if chance.random() < 0.1
        else chance.choice(JUNK)
    )
