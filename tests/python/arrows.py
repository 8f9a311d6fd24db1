"""Allowed imports between the rooms of one of the repository's packages: the checks that each
package's tests make with a table of its own."""

from __future__ import annotations

import ast
import functools
import graphlib
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = frozenset({"armillary", "armillary_train", "armillary_lab"})
EXTENSIONS = frozenset({"_core", "_train", "_peers"})
"""Modules of the packages that are written in Rust."""
_DATA = frozenset({"systems"})
"""Folders of a package without modules."""


@dataclass(frozen=True)
class House:
    """A package and what its rooms may import. A room is a folder or a file right below it; "" is
    the package itself."""

    folder: Path
    allowed: dict[str, set[str]]
    """Room -> rooms that it may import."""
    libraries: dict[str, set[str]]
    """Library -> rooms that may import it."""
    stands_on: frozenset[str]
    """Other packages of this repository that it may import."""

    def modules(self) -> list[Path]:
        """Every file with code."""
        found = self.folder.rglob("*.py")
        return sorted(path for path in found if not _DATA & {*path.relative_to(self.folder).parts})

    def name_of(self, path: Path) -> str:
        """A file's path in the package."""
        return str(path.relative_to(self.folder))

    def room(self, path: Path) -> str:
        """The room of a file."""
        first = path.relative_to(self.folder).parts[0]
        return "" if first == "__init__.py" else first.removesuffix(".py")

    def imported_rooms(self, path: Path) -> set[str]:
        """The other rooms that a file imports."""
        start = f"{self.folder.name}."
        found = imports(self.folder, path)
        inside = [name.split(".")[1] for name in found if name.startswith(start)]
        known = {name if name in self.allowed or name in EXTENSIONS else "" for name in inside}
        return known - {self.room(path)}

    def check_arrows(self) -> None:
        """Fails if a file imports a room or a package that it may not."""
        packages = {self.folder.name} | self.stands_on
        wrong: dict[str, set[str]] = {}
        for path in self.modules():
            room = self.room(path)
            assert room in self.allowed, "a new room needs a line in ALLOWED and in ARCHITECTURE.md"
            found = {name.split(".")[0] for name in imports(self.folder, path)} & PACKAGES
            beyond = (self.imported_rooms(path) - self.allowed[room]) | (found - packages)
            if beyond:
                wrong[self.name_of(path)] = beyond
        assert wrong == {}

    def check_libraries(self) -> None:
        """Fails if a file imports a library that is not for its room."""
        wrong: dict[str, set[str]] = {}
        for path in self.modules():
            room = self.room(path)
            libraries = {name.split(".")[0] for name in imports(self.folder, path)}
            beyond = {each for each in libraries if room not in self.libraries.get(each, {room})}
            if beyond:
                wrong[self.name_of(path)] = beyond
        assert wrong == {}

    def check_rooms(self) -> None:
        """Fails if the arrows between rooms have a circle."""
        seen: list[str] = []
        while len(seen) < len(self.allowed):
            ready = [
                name
                for name, needs in self.allowed.items()
                if name not in seen and {each for each in needs if each in self.allowed} <= {*seen}
            ]
            assert ready, f"a cycle among {set(self.allowed) - set(seen)}"
            seen += ready

    def files(self) -> dict[str, set[str]]:
        """Dotted names of the files of the package and of those each one imports, for types too.

        A name imported from a package stands for the file of that name, or else for the package's
        `__init__`."""
        paths = {self.dotted(path): path for path in self.modules()}
        found: dict[str, set[str]] = {}
        for name, path in paths.items():
            outside = (
                each for each in imports(self.folder, path) if not EXTENSIONS & {*each.split(".")}
            )
            owners = {each if each in paths else each.rpartition(".")[0] for each in outside}
            found[name] = {each for each in owners if each in paths} - {name}
        return found

    def dotted(self, path: Path) -> str:
        """The dotted name of a file."""
        parts = path.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def check_files(self) -> None:
        """Fails if files import each other in a circle."""
        try:
            graphlib.TopologicalSorter(self.files()).prepare()
        except graphlib.CycleError as error:
            pytest.fail(" -> ".join(error.args[1]))


@functools.cache
def imports(folder: Path, path: Path) -> frozenset[str]:
    """Absolute names of everything that a file of a package imports, wherever in it."""
    package = [folder.name, *path.relative_to(folder).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            found.update(".".join([*base, alias.name]) for alias in node.names)
    return frozenset(found)
