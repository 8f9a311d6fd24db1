"""Attributes of instructions as text, to plain values.

Here: each attribute that a cost or a collective needs. Not here: where its text begins and ends
(`text.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from . import devices
from .module import DamagedError, Groups, Labels, Window, whole

_CALLS = ("body", "condition", "to_apply", "calls", "called_computations", "select", "scatter",
          "branch_computations", "true_computation", "false_computation")  # fmt: skip
"""Attributes that name computations, in the order of the protobuf."""
_LISTS = {
    "lhs_contracting_dims": "lhs_contracting",
    "rhs_contracting_dims": "rhs_contracting",
    "lhs_batch_dims": "lhs_batch",
    "rhs_batch_dims": "rhs_batch",
    "dimensions": "dimensions",
    "fft_length": "fft",
}
_COUNTS = {"feature_group_count": "feature_groups", "batch_group_count": "batch_groups"}
READ = frozenset({
    *_CALLS, *_LISTS, *_COUNTS, "window", "dim_labels", "kind", "direction", "custom_call_target",
    "backend_config", "replica_groups", "source_target_pairs", "channel_id", "metadata",
    "use_global_device_ids", "control-predecessors", "index", "frontend_attributes",
    "is_host_transfer", "lhs_ragged_dims", "replica_count", "num_partitions", "is_scheduled",
})  # fmt: skip
"""Attributes whose text is kept."""
_COMPUTATION = re.compile(r"[\w.\-$]+")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_LABELS = re.compile(r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_WORDS = {
    "size": r"(\d+)",
    "stride": r"(\d+)",
    "pad": r"(-?\d+)_(-?\d+)",
    "lhs_dilate": r"(\d+)",
    "rhs_dilate": r"(\d+)",
}
_INTEGER = re.compile(r"\s*(-?\d{1,19}|true|false)\s*")
_TRUTHS = ("true", "false")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
MESSAGES = ("collective-permute", "collective-permute-start", "send", "recv")


def op_name(metadata: str) -> str:
    """The name that the framework gave an instruction, or nothing."""
    match = _OP_NAME.search(metadata)
    return match[1][:512] if match else ""


class Reader:
    """Attributes of a module. Groups that are written the same way are read once."""

    def __init__(self) -> None:
        self._groups: dict[str, Groups] = {}

    def of_text(
        self, where: str, opcode: str, inside: str, said: Mapping[str, str]
    ) -> tuple[dict[str, Any], tuple[str, ...], list[str]]:
        """Values, names of the computations that it calls, and of the instructions that it waits
        for. Raises `DamagedError`."""
        found: dict[str, Any] = {}
        if opcode == "parameter":
            found["number"] = whole(inside.strip(), where)
        elif opcode == "constant" and (match := _INTEGER.fullmatch(inside)):
            found["value"] = int(match[1] == "true") if match[1] in _TRUTHS else int(match[1])
        calls: list[str] = []
        for key in _CALLS:
            if key in said:
                calls += _COMPUTATION.findall(said[key].replace("%", " "))
        for key, text in said.items():
            self._value(found, where, opcode, key, text)
        waits = _COMPUTATION.findall(said.get("control-predecessors", "").replace("%", " "))
        return found, tuple(calls), waits

    def _value(self, found: dict[str, Any], where: str, opcode: str, key: str, text: str) -> None:
        """One attribute."""
        text = text.strip()
        if key in _LISTS:
            parts = [part.strip() for part in text.strip("{}").split(",") if part.strip()]
            if parts:
                found[_LISTS[key]] = tuple(whole(part, where) for part in parts)
        elif key in _COUNTS:
            found[_COUNTS[key]] = max(1, whole(text, where))
        elif key == "frontend_attributes":
            if opcode in ("send", "recv"):
                found["frontend"] = text
        elif key == "replica_groups":
            found["groups"] = self.groups(text, where)
        elif key in _READERS:
            name, reader = _READERS[key]
            found[name] = reader(text, where)

    def groups(self, text: str, where: str) -> Groups:
        """Groups from their text."""
        if text not in self._groups:
            self._groups[text] = devices.parse(text, where)
        return self._groups[text]


def _unquoted(text: str) -> str:
    """A string without its quotes; what is not a string as it is."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPED.sub(r"\1", text[1:-1])
    return text


def _window(text: str, where: str) -> tuple[Window, ...]:
    """A window: `{size=3x3 stride=2x2 pad=1_1x1_1}`."""
    words = dict(part.split("=", 1) for part in text.strip("{}").split() if "=" in part)
    rank = len(words["size"].split("x")) if "size" in words else 0
    values: dict[str, list[tuple[int, ...]]] = {}
    for key, form in _WORDS.items():
        if key not in words:
            continue
        parts = words[key].split("x")
        matches = [re.fullmatch(form, part) for part in parts]
        if len(parts) != rank or rank > 64:
            raise DamagedError(where, f"a window of uneven dimensions: {text[:60]!r}")
        values[key] = []
        for match in matches:
            if match is None or any(len(each) > 12 for each in match.groups()):
                raise DamagedError(where, f"an unknown window: {text[:60]!r}")
            values[key].append(tuple(int(each) for each in match.groups()))
    ones = [(1,)] * rank
    found = []
    for at in range(rank):
        low, high = values.get("pad", [(0, 0)] * rank)[at]
        found.append(
            Window(
                values["size"][at][0],
                max(1, values.get("stride", ones)[at][0]),
                low,
                high,
                max(1, values.get("rhs_dilate", ones)[at][0]),
                max(1, values.get("lhs_dilate", ones)[at][0]),
            )
        )
    return tuple(found)


def _labels(text: str, where: str) -> Labels:
    """Dimensions of a convolution: `b01f_01io->b01f`."""
    match = _LABELS.fullmatch(text)
    if match is None:
        raise DamagedError(
            where, f"unknown labels of a convolution: {text[:60]!r}", "bf01_oi01->bf01"
        )
    firsts = ("bf", "io", "bf")
    return Labels(
        *(_places(part, first, where) for part, first in zip(match.groups(), firsts, strict=True))
    )


def _places(word: str, firsts: str, where: str) -> tuple[int, ...]:
    """Places of two letters in a word, and of the digits in their order."""
    digits = sorted(each for each in word if each.isdigit())
    if any(word.count(each) != 1 for each in (*firsts, *digits)) or digits != [
        str(at) for at in range(len(digits))
    ]:
        raise DamagedError(where, f"unknown labels of a convolution: {word[:40]!r}")
    return tuple(word.index(each) for each in (*firsts, *digits))


_READERS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "index": ("number", whole),
    "lhs_ragged_dims": ("ragged", lambda _text, _where: True),
    "window": ("window", _window),
    "dim_labels": ("labels", _labels),
    "kind": ("kind", lambda text, _where: text),
    "direction": ("direction", lambda text, _where: text),
    "custom_call_target": ("target", lambda text, _where: _unquoted(text)[:256]),
    "backend_config": ("config", lambda text, _where: _unquoted(text)),
    "source_target_pairs": ("pairs", devices.parse_pairs),
    "channel_id": ("channel", lambda text, where: whole(text, where) > 0),
    "use_global_device_ids": ("global_ids", lambda text, _where: text == "true"),
    "is_host_transfer": ("host", lambda text, _where: text == "true"),
}
"""Name and reader of other attributes."""
