"""Fields of configuration classes, read from the source of an installed package.

Nothing of the package is imported, so that it needs none of its own requirements."""

from __future__ import annotations

import ast
from importlib.metadata import files
from pathlib import Path

Fields = dict[str, list[str]]
"""Name of a field to its type and default, as they are written; an empty text without a default."""


def source(package: str, file: str) -> ast.Module:
    """The tree of a file of an installed package, whose name is as the package lists it."""
    found = next(each for each in files(package) or () if str(each) == file)
    return ast.parse(Path(str(found.locate())).read_text(encoding="utf-8"))


def fields(tree: ast.Module, name: str) -> Fields:
    """The fields that the class `name` declares itself, nested classes as `Outer.Inner`."""
    node: ast.Module | ast.ClassDef = tree
    for part in name.split("."):
        node = next(
            each for each in node.body if isinstance(each, ast.ClassDef) and each.name == part
        )
    return {
        each.target.id: [ast.unparse(each.annotation), _default(each.value)]
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def _default(value: ast.expr | None) -> str:
    """The default as it is written; of `field(default=X)` the X."""
    if isinstance(value, ast.Call):
        named = {each.arg: each.value for each in value.keywords}
        inner = named.get("default", named.get("default_factory"))
        return ast.unparse(inner) if inner is not None else ast.unparse(value)
    return "" if value is None else ast.unparse(value)


def flags(tree: ast.Module, name: str) -> dict[str, str]:
    """Flags that fields name in `metadata={"argparse_meta": {"arg_names": [...]}}`."""
    found: dict[str, str] = {}
    node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    for each in node.body:
        if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)):
            continue
        for inner in ast.walk(each):
            if isinstance(inner, ast.Constant) and str(inner.value).startswith("--"):
                found[str(inner.value)] = each.target.id
    return found
