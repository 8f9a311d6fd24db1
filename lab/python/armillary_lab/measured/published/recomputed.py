"""Recomputation of a run, in the words of Megatron's options and of NeMo's recipes.

`recompute_granularity`, `recompute_method`, `recompute_num_layers` and `recompute_modules` are
Megatron-LM's (core/transformer/transformer_config.py). A number of layers alone is that of the
method `block`, as in the recipes of NeMo (scripts/performance/helpers.py, `recompute_layers`) and
Megatron-Bridge (scripts/performance, `recompute_num_layers`); 0 there is none. `full (uniform, 1)`
says three of these at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .run import Missing

_KEYS = (
    "recompute",
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_layers",
    "recompute_modules",
)
_PHRASE = re.compile(r"(?P<kind>selective|full)( \((?P<method>block|uniform), (?P<count>\d+)\))?")
_CORE = "core_attn"
"""The module that Megatron recomputes with `selective` when none is named."""


class Recomputed(NamedTuple):
    """Recomputation as a run has it."""

    kind: str
    extra: dict[str, str]


def stated(parallel: Mapping[str, Any]) -> Recomputed | None:
    """Recomputation that a row states; `None` where it states nothing. Raises `Missing` where the
    words don't say which layers."""
    said = {key: str(parallel[key]).strip() for key in _KEYS if key in parallel}
    if not said:
        return None
    match = _PHRASE.fullmatch(said.get("recompute", "full").lower())
    if match is None:
        raise Missing(f"recompute is {said['recompute']!r}")
    count = _first(said, "recompute_num_layers", "recompute_layers") or match["count"]
    method = said.get("recompute_method") or match["method"]
    kind = said.get("recompute_granularity") or (match["kind"] if "recompute" in said else "")
    kind = kind or ("selective" if "recompute_modules" in said else "full")
    if kind == "full":
        return _layers(count, method, whole="recompute" in said)
    if kind != "selective":
        raise Missing(f"recompute_granularity is {kind!r}")
    if method or count not in (None, "0"):
        raise Missing("recompute_granularity is 'selective' with a method or a number of layers")
    return _modules(said.get("recompute_modules", ""))


def _first(said: Mapping[str, str], *keys: str) -> str | None:
    return next((said[key] for key in keys if key in said), None)


def _layers(count: str | None, method: str | None, whole: bool) -> Recomputed:
    """Layers that are recomputed whole; all of them where `whole` and no number is stated."""
    if count is None:
        if whole and method is None:
            return Recomputed("full", {})
        words = f"recompute_method is {method!r}" if method else "recompute_granularity is 'full'"
        raise Missing(f"{words} without a number of layers")
    if not count.isascii() or not count.isdigit():
        raise Missing(f"recompute_num_layers is {count!r}")
    number, method = int(count), method or "block"
    if method not in ("block", "uniform"):
        raise Missing(f"recompute_method is {method!r}")
    if method == "block" and number == 0:
        return Recomputed("none", {})
    if method == "uniform" and number == 1:
        return Recomputed("full", {})
    return Recomputed("full", {"recompute_layers": str(number), "recompute_method": method})


def _modules(modules: str) -> Recomputed:
    names = [name for name in re.split(r"[\s,/\[\]()'\"]+", modules) if name]
    if names in ([], [_CORE]):
        return Recomputed("selective", {})
    return Recomputed("none", {"recompute_modules": ",".join(names)})
