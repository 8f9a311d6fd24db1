"""tools/platform_keys.py: the keys of platform files, each with a file that sets it.

It writes `docs/reference/platform-keys.md`. Some sections have the same keys as an earlier one
(`Keys as ...` in its meaning). An example of a key then counts for both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from armillary import _core

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/platform-keys.md"
EXAMPLES = ROOT / "examples/platforms"
FOLDERS = (EXAMPLES, ROOT / "examples", ROOT / "systems")
"""Folders of platform files; the first that sets a key is its example."""
_HEAD = """\
# Platform keys
<!-- rerun: python tools/platform_keys.py -->

This page lists every key of a platform file, with a file that sets it. Pages with the meaning of
each key: [platform files](platform-files.md#keys). The files of `examples/platforms` are small, and
say in one line when to use a key. The second line of such a file is the command that runs it. A
test runs each of them, with and without each key, and compares the results. `python
tools/platform_keys.py` writes this page from the declarations.

| key | value | default | example |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Key:
    """A declared key."""

    path: str
    """Without the numbers of list entries."""
    value: str
    default: str
    twin: str
    """The key next to it, or next to a key above it, whose keys are the same; or empty."""


def declared() -> list[Key]:
    """Every key, in the order of the declarations."""
    keys: list[Key] = []
    first: dict[str, str] = {}
    for path, value, default, meaning, _ in _core.platform_keys():
        plain = re.sub(r"\[\d+\]", "", path)
        same = re.search(r"Keys as `(\w+)`\.$", meaning)
        beside = plain.rpartition(".")[0]
        above = next((key for key in keys if key.twin and plain.startswith(key.path + ".")), None)
        twin = f"{beside}.{same[1]}" if same else ""
        if above:
            twin = above.twin + plain[len(above.path) :]
        twin = first.get(twin) or twin
        first[plain] = twin
        keys.append(Key(plain, value, default, twin))
    return keys


def paths(node: object, at: str = "") -> Iterator[str]:
    """The keys of a tree, without the numbers of list entries."""
    if isinstance(node, dict):
        for name, value in node.items():
            path = f"{at}.{name}" if at else str(name)
            yield path
            yield from paths(value, path)
    elif isinstance(node, list):
        for value in node:
            yield from paths(value, at)


def examples() -> dict[str, Path]:
    """The example of each key that a file sets."""
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.yml")):
            tree = yaml.safe_load(file.read_text(encoding="utf-8"))
            for path in paths(tree) if isinstance(tree, dict) else ():
                found.setdefault(path, file)
    return found


def without(keys: list[Key], found: dict[str, Path]) -> list[str]:
    """Keys without an example, of their own or of a key with the same declaration."""
    declaration = {key.path: key.twin or key.path for key in keys}
    shown = {declaration[path] for path in found if path in declaration}
    return [key.path for key in keys if declaration[key.path] not in shown]


def page() -> str:
    """The page."""
    found = examples()
    rows = []
    for key in declared():
        file = found.get(key.path) or found.get(key.twin)
        link = f"[{file.stem}](../../{file.relative_to(ROOT)})" if file else ""
        rows.append(f"| `{key.path}` | {key.value} | {key.default} | {link} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
