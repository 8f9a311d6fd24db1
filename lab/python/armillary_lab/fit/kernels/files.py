"""Files of parameters of kernels: values that all generations share, and those of one.

`systems/parts/kernels/shared.yml` has the values of most keys, and `<generation>.yml` those of its
own. A value that is written once counts once (`count`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from armillary.platform.presets import SYSTEMS as FOLDER
from armillary.units import base

from .search import Values, kinds, written

GENERATIONS = ("ada", "ampere", "blackwell", "hopper")
SHARED = "shared"
_UNIT = {"time": 1e6, "size": 1.0, "bandwidth": 1.0}
"""Values of parameters by the kind of their key: us, bytes, bytes a second."""
_FACTS = ("splits", "columns", "packed", "backward", "host", "machine.tile")
"""Ends of keys that no fit moves: what a kernel or a machine is."""


def fact(key: str) -> bool:
    """The value is known, and no fit moves it."""
    return any(key.endswith(f".{end}") for end in _FACTS)


def own(name: str, kind: str) -> dict[str, float]:
    """The values of a kind in one file, by their keys; times are in us."""
    return dict(_leaves(tree(name, kind), kind))


def tree(name: str, kind: str) -> dict[str, object]:
    """The values of a kind in one file, as it writes them."""
    found: dict[str, object] = yaml.safe_load(_file(name).read_text(encoding="utf-8"))["npu"][
        "kernels"
    ].get(kind, {})
    return found


def parameters(generation: str, kind: str) -> dict[str, float]:
    """The parameters of a kind that the presets of a generation have."""
    return own(SHARED, kind) | own(generation, kind)


def count(kind: str) -> int:
    """Values of a kind that fits have chosen, in all files."""
    return sum(not fact(key) for name in (SHARED, *GENERATIONS) for key in own(name, kind))


def write(kind: str, by: Mapping[str, Values]) -> None:
    """Puts a kind into each of the files, by their names; the rest of a file stays."""
    for name, values in by.items():
        file = _file(name)
        text = file.read_text(encoding="utf-8")
        kept = [line for line in text.splitlines() if not line.startswith(f"    {kind}:")]
        if values:
            kept.append(f"    {kind}: {_flow(kind, values)}")
        file.write_text("\n".join(kept) + "\n", encoding="utf-8")


def _flow(kind: str, values: Values) -> str:
    root: dict[str, object] = {}
    for key, value in values.items():
        *above, name = key.split(".")[1:]
        at = root
        for each in above:
            at = at.setdefault(each, {})  # type: ignore[assignment]
        at[name] = written(key, value)
    return yaml.safe_dump(root, default_flow_style=True, width=10**6, sort_keys=False).strip()


def _file(name: str) -> Path:
    return FOLDER / "parts" / "kernels" / f"{name}.yml"


def _leaves(node: object, key: str) -> list[tuple[str, float]]:
    if isinstance(node, dict):
        return [leaf for name, each in node.items() for leaf in _leaves(each, f"{key}.{name}")]
    return [(key, _number(key, node))]


def _number(key: str, value: object) -> float:
    unit = _UNIT.get(kinds()[key])
    if unit is None:
        return float(str(value))
    found = base(str(value))
    assert found is not None, (key, value)
    return float(found) * unit
