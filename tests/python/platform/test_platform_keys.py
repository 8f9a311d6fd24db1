"""Every key of platform files has an example, which runs, and which the key changes.

The examples are files of `examples/platforms`. Each is run as it is, and again without each of its
keys or with another value. A key acts where the report differs, or where the platform is refused
without it."""

from __future__ import annotations

import copy
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import platform_keys
import yaml

import armillary as arm
from armillary import api, kernels
from armillary.errors import ArmillaryError
from armillary.kernels.shapes import parse

ECHO = ("schema", "version", "config", "seed", "digest")
"""Parts of a report that repeat its input."""
NO_EFFECT = {
    "network.analytical": "a section without keys",
    "network.external.timeout": "ends a simulator in another process that hangs",
    "network.flit.threads": "results do not depend on it",
    "network.flit.switching": "refuses buffers that hold no packet",
    "graph.switches.radix": "refuses more cables than ports",
    "source": "for people",
    "npu.name": "for people",
}
"""Keys that change no result of an example, and why."""
Path_ = tuple[str | int, ...]
"""Keys and numbers of list entries, from the outermost."""


def test_every_key_has_an_example() -> None:
    assert platform_keys.without(platform_keys.declared(), platform_keys.examples()) == []


def test_the_page_lists_every_key() -> None:
    """Otherwise run `python tools/platform_keys.py`."""
    assert platform_keys.PAGE.read_text(encoding="utf-8") == platform_keys.page()


def test_every_key_of_an_example_acts(tmp_path: Path) -> None:
    folder = shutil.copytree(platform_keys.EXAMPLES, tmp_path / "platforms")
    tried: set[str] = set()
    acting: set[str] = set()
    for file in sorted(folder.glob("*.yml")):
        command = shlex.split(file.read_text(encoding="utf-8").splitlines()[1].removeprefix("# "))
        if command[0] in ("armillary", "python"):
            tried |= set(platform_keys.paths(yaml.safe_load(file.read_text(encoding="utf-8"))))
            acting |= acting_keys(file, command)
    sections = {key for key in tried if any(other.startswith(f"{key}.") for other in tried)}
    idle = tried - acting - sections
    assert (sorted(idle - set(NO_EFFECT)), sorted(set(NO_EFFECT) - idle)) == ([], [])


def acting_keys(file: Path, command: list[str]) -> set[str]:
    """Keys of a file without which, or with another value of which, its run differs."""
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    tree.setdefault("name", file.stem)
    target = file.with_name("changed.yaml")
    found = report(written(tree, target), command)
    idle = [text for text in found["warnings"] if "has no effect" in text]
    assert not idle or file.stem == "external", (file.name, idle)

    def acts(path: Path_, value: object) -> bool:
        changes = [changed(tree, path, None)]
        changes += [changed(tree, path, other) for other in others(value)]
        return any(differs(found, written(each, target), command) for each in changes)

    return {named(path) for path, value in leaves(tree) if acts(path, value)}


def differs(found: dict[str, Any], file: Path, command: list[str]) -> bool:
    """Whether a run of the changed file gives another report, or is refused."""
    try:
        return report(file, command) != found
    except ArmillaryError:
        return True


def report(file: Path, command: list[str]) -> dict[str, Any]:
    """The report of a command on a platform file, without what it repeats."""
    platform = arm.Platform.load(file)
    if command[0] == "python":
        module = script(file.parent / Path(command[1]).name)
        run = arm.simulate(module.workload(platform.npus, *command[3:]), platform)
    elif command[1] == "collective":
        run = api.collective_result(command[2], bytes_of(command[4]), platform)
    elif command[1] == "kernel":
        time = kernels.one(parse(command[2], command[3:-2]), platform)
        return {"time": time, "warnings": platform.warnings}
    else:
        run = arm.simulate(model(tuple(command[2:-2])), platform)
    return {key: value for key, value in run.report.items() if key not in ECHO}


def bytes_of(text: str) -> int:
    """`1M` in bytes."""
    return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]] if text[-1] in "KM" else int(text)


@cache
def script(file: Path) -> ModuleType:
    """A program of the examples."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def model(words: tuple[str, ...]) -> arm.Workload:
    """The workload of `MODEL --option value ...`."""
    pairs = zip(words[1::2], words[2::2], strict=True)
    options = {
        name.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for name, value in pairs
    }
    return arm.workload.build(words[0], **options)


def leaves(node: object, at: Path_ = ()) -> Iterator[tuple[Path_, object]]:
    """Every value that is no mapping or list of mappings."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from leaves(value, (*at, name))
    elif isinstance(node, list) and any(isinstance(value, dict) for value in node):
        for index, value in enumerate(node):
            yield from leaves(value, (*at, index))
    else:
        yield at, node


def named(path: Path_) -> str:
    """The key of a path."""
    return ".".join(part for part in path if isinstance(part, str))


def changed(tree: dict[str, Any], path: Path_, value: object) -> dict[str, Any]:
    """The tree with another value; `None`: without the key."""
    new = copy.deepcopy(tree)
    at: Any = new
    for part in path[:-1]:
        at = at[part]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return new


def others(value: object) -> list[object]:
    """Another value of the same kind, where there is one: twice the number."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 2]
    number = re.match(r"([\d.]+)(.*)", value) if isinstance(value, str) else None
    return [f"{float(number[1]) * 2:g}{number[2]}"] if number else []


def written(tree: dict[str, Any], file: Path) -> Path:
    """The file, with the tree."""
    file.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return file
