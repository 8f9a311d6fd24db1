"""Kinds of YAML files by their keys."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InputError, Problem

_SIGNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "sweep": (("parameters",), ("rows",), ("workload", "platform")),
    "design": (("workloads",),),
    "model": (("family",),),
    "framework": (("summary", "options"), ("summary", "settings")),
    "table of costs": (("technologies",),),
    "sharding plan": (("tables",),),
    "recipe of data": (("categories",), ("label",), ("dense",), ("held_out",), ("shuffle",)),
    "platform": (("topology",), ("links",), ("npu",), ("network",), ("library",), ("graph",)),
}
"""Kind -> groups of keys. A file that has all keys of a group is of this kind; the first kind that
fits counts."""


def kind_of(file: str, value: object) -> str:
    """The kind of a file with this content. Raises `InputError` for an unknown one."""
    keys = set(value) if isinstance(value, Mapping) else set()
    for kind, groups in _SIGNS.items():
        if any(keys.issuperset(group) for group in groups):
            return kind
    allowed = ", ".join(_SIGNS)
    raise InputError([Problem(file, "", "is no kind of file that is known", allowed)])
