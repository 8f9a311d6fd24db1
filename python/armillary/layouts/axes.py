"""The values that each option of a layout may take in a search.

Here: the values that are searched by default, and reading those that a user gives. Not here: which
of their combinations are layouts (`space.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..option_fields import near, types
from ..workload.parallelism import FRAMEWORK_KEYS, Parallelism
from ..workload.parallelism_reader import in_range

Values = tuple[object, ...]

DECIDED = ("dp", "ranks", "global_batch", "seq", "framework", "framework_set")
"""Options that the search decides, or that have their own place on the command line."""
SIMULATED = (
    "lora_rank",
    "lora_modules",
    "offload",
    "in_switch",
    "recompute_method",
)
"""Options whose effect only a simulation knows."""
_ORDER = ("tp", "pp", "cp", "ep", "etp", "schedule", "virtual_stages", "overlap_passes")
_LISTS = ("recompute_modules", "layers_per_stage")
"""Options whose values have commas; in a search they have plus signs."""
_NONE = ("recompute_modules", "recompute_layers", "layers_per_stage", "etp", "zero_group")
"""Options that may be left out."""
BY_COST = "cost"
"""Layers of each part of the pipeline by what layers and the head multiply."""
_MOST = 4096
"""Values of one option."""


def searched() -> list[str]:
    """Options that a search knows."""
    without = (*DECIDED, *SIMULATED, *FRAMEWORK_KEYS)
    return [name for name in types(Parallelism) if name not in without]


def defaults(model: Decoder, ranks: int, node: int, flash: bool) -> dict[str, Values]:
    """The values that are searched where none are given. `node` is the number of ranks within the
    innermost dimension.

    With `flash` attention, selective recomputation drops nothing and costs time, so it is left
    out."""
    powers = tuple(1 << i for i in range(20))
    experts = model.experts
    modules: list[str | None] = [None, "layernorm", "activation", "layernorm,activation"]
    if not experts or model.first_dense or model.every > 1:
        modules.append("mlp")
    if experts:
        modules += ["moe_act", "layernorm,moe_act", "moe"]
    if model.kv_rank:
        modules += ["mla_up_proj", "layernorm,mla_up_proj"]
        modules += ["layernorm,mla_up_proj,moe_act"] if experts else []
    return {
        "tp": tuple(n for n in powers if n <= min(node, model.heads, ranks)),
        "cp": tuple(n for n in powers if n <= min(16, ranks)),
        "pp": tuple(n for n in _divisors(ranks) if n <= model.layers),
        "ep": tuple(n for n in _divisors(experts) if n <= ranks) if experts else (1,),
        "etp": (None, 1) if experts else (None,),
        "schedule": ("1f1b", "zb-h1", "dualpipe"),
        "virtual_stages": tuple(range(1, 17)),
        "overlap_passes": (False, True),
        "layers_per_stage": (None, BY_COST),
        "micro_batch": (1, 2, 4, 8),
        "sp": (False, True),
        "zero": (0, 1, 2, 3),
        "zero_group": (None, *(n for n in powers if 2 <= n <= min(node, ranks))),
        "recompute": ("none", "full") if flash else ("none", "selective", "full"),
        "recompute_modules": tuple(modules),
        "recompute_layers": (None, *range(1, model.layers)),
    }


def read(texts: Sequence[str], name: str) -> dict[str, Values]:
    """Values by option of texts such as `tp=4,8`, `pp=1..16` or `zero=1`, for the model `name`.

    Raises `InputError` listing every problem."""
    found: dict[str, Values] = {}
    problems: list[Problem] = []
    known = searched()
    for text in texts:
        option, equals, raw = text.partition("=")
        option = option.strip().replace("-", "_")
        if not equals or not raw.strip():
            allowed = "values after =, such as tp=4,8 or pp=1..16"
            problems.append(Problem("--layout", text, "has no values", allowed))
        elif option not in known:
            problems.append(Problem("--layout", option, *_unknown(option, known)))
        elif option in found:
            problems.append(Problem("--layout", option, "is given twice", "once, as tp=4,8"))
        else:
            try:
                found[option] = _values(option, raw, name)
            except InputError as error:
                problems += [replace(each, file="--layout") for each in error.problems]
    if problems:
        raise InputError(problems)
    return found


def checked(layout: object, name: str) -> dict[str, Values]:
    """Values by option of a mapping from Python: `{"tp": (4, 8), "zero": 1}`, for the model `name`.

    Raises `InputError` listing every problem."""
    if not isinstance(layout, Mapping):
        said = f"is not a mapping from options to values: {layout!r}"[:200]
        raise InputError([Problem("layout", "", said, '{"tp": (4, 8), "zero": 1}')])
    found: dict[str, Values] = {}
    problems: list[Problem] = []
    known = searched()
    for option, given in layout.items():
        listed = [*given] if isinstance(given, list | tuple | range) else [given]
        if option not in known:
            problems.append(Problem("layout", str(option), *_unknown(str(option), known)))
        elif not listed:
            problems.append(Problem("layout", option, "has no values", "one or more: (4, 8)"))
        else:
            try:
                found[option] = _typed(option, listed, name)
            except InputError as error:
                problems += [replace(each, file="layout") for each in error.problems]
    if problems:
        raise InputError(problems)
    return found


def _unknown(option: str, known: list[str]) -> tuple[str, str]:
    if option in DECIDED:
        return "is decided by the search", "the options of the verb"
    if option in SIMULATED:
        return "is not searched", "armillary sweep"
    if option in FRAMEWORK_KEYS:
        return "describes a framework", "--framework"
    return "is unknown", near(option, known) or ", ".join(known)


def _values(option: str, raw: str, name: str) -> Values:
    items = [each.strip() for each in raw.split(",")]
    if option in _LISTS:
        items = [each.replace("+", ",") for each in items]
    listed: list[object] = []
    for item in items:
        span = re.fullmatch(r"(\d{1,7})\.\.(\d{1,7})", item)
        if span is None:
            listed.append(_plain(item))
            continue
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + _MOST:
            allowed = f"a first and a last value, up to {_MOST} values"
            raise InputError([Problem("", option, f"invalid range: {item}", allowed)])
        listed += range(first, last + 1)
    return _typed(option, listed, name)


def _typed(option: str, listed: Sequence[object], name: str) -> Values:
    """Values of an option, each once. Raises `InputError`."""
    if None in listed and option not in _NONE:
        raise InputError([Problem("", option, "invalid value: None", f"{option} left out")])
    if option == "recompute_layers" and 0 in listed:
        said = "0 recomputes no layer"
        raise InputError([Problem("", option, said, "1 or more, or recompute=none")])
    typed = (
        None
        if value in ("none", None) and option in _NONE
        else value
        if (option, value) == ("layers_per_stage", BY_COST)
        else getattr(in_range(Parallelism, name, {option: value}), option)
        for value in listed
    )
    return tuple(dict.fromkeys(typed))


def _plain(item: str) -> object:
    """A value as a file would hold it."""
    words: Mapping[str, object] = {"true": True, "on": True, "false": False, "off": False}
    if item.lower() in words:
        return words[item.lower()]
    return int(item) if re.fullmatch(r"\d{1,9}", item) else item


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
