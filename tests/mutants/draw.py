"""The draw of mutants: faults that the tests of a house must find.

Here: which faults can be drawn, and the draw by a fixed seed. Not here: whether tests find them
(run.py). cargo-mutants makes the faults in Rust, mutmut those in Python; README.md says how."""

from __future__ import annotations

import difflib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst
import yaml
from mutmut.mutation.file_mutation import create_mutations

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SEED = 20261128
# How many mutants of each language judge the tests of each house.
WANTED = {
    "rust": {"simulator": 14, "trainer": 4, "lab": 2},
    "python": {"simulator": 10, "trainer": 5, "lab": 5},
}
# Rooms of the trainer and of the laboratory; every other room is the simulator's.
TRAINER = ("crates/embedding/", "crates/ingest/", "train/crates/", "train/python/armillary_train/")
LAB = (
    "crates/net-flit/src/reference",
    "crates/net-packet/src/reference",
    "crates/py/src/flits.rs",
    "crates/py/src/packets.rs",
    "python/armillary/validation/",
    "python/armillary/studies/",
    "python/armillary/calibrate/levels",
    "python/armillary/calibrate/together",
)
Mutant = dict[str, Any]


def house(path: str) -> str:
    """The house whose tests judge a change of `path`."""
    if path.startswith(TRAINER):
        return "trainer"
    return "lab" if path.startswith(LAB) else "simulator"


def rust(listed: list[dict[str, Any]]) -> Iterator[Mutant]:
    """The mutants in crates, from `cargo mutants --list --json --diff --workspace`."""
    for each in listed:
        path = each["file"]
        if path.startswith(("crates/", "train/crates/", "lab/crates/")) and each["function"]:
            _, _, hunks = each["diff"].split("\n", 2)
            hunks = hunks.replace("/* ~ changed by cargo-mutants ~ */ ", "")
            yield {
                "file": path,
                "line": each["span"]["start"]["line"],
                "function": each["function"]["function_name"],
                "change": each["name"].split(": ", 1)[1],
                "patch": f"--- a/{path}\n+++ b/{path}\n{hunks}",
            }


def python(path: Path, dice: random.Random) -> Mutant | None:
    """One mutant of a module, by mutmut's operators; nothing where it has none."""
    name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    module, mutations, _, _ = create_mutations(name, text)
    found = [
        each
        for each in mutations
        if isinstance(each.contained_by_top_level_function, libcst.FunctionDef)
    ]
    if not found:
        return None
    each = dice.choice(found)
    changed = module.deep_replace(each.original_node, each.mutated_node)
    after = libcst.ensure_type(changed, libcst.Module).code
    patch = _patch(name, text, after)
    function = libcst.ensure_type(each.contained_by_top_level_function, libcst.FunctionDef)
    return {
        "file": name,
        "line": _line(text, after),
        "function": function.name.value,
        "change": " ".join(" ".join(line.split()) for line in _differing(patch)),
        "patch": patch,
    }


def _line(before: str, after: str) -> int:
    """The first line that differs, from 1."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((at for at, (old, new) in enumerate(pairs, start=1) if old != new), 0)


def _differing(patch: str) -> list[str]:
    return [line for line in patch.splitlines()[2:] if line[:1] in ("+", "-")]


def _patch(name: str, before: str, after: str) -> str:
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    )


def _applies(mutant: Mutant, language: str) -> bool:
    """Whether the tree with the mutant compiles. The tree is as before afterwards."""
    if not mutant["patch"]:
        return False
    apply = ["git", "-C", str(ROOT), "apply"]
    subprocess.run([*apply, "-"], input=mutant["patch"], text=True, check=True)
    try:
        return (
            subprocess.run(_check(mutant["file"], language), cwd=ROOT, check=False).returncode == 0
        )
    finally:
        subprocess.run([*apply, "-R", "-"], input=mutant["patch"], text=True, check=True)


def _check(file: str, language: str) -> list[str]:
    if language == "python":
        return [sys.executable, "-c", f"compile(open({file!r}).read(), {file!r}, 'exec')"]
    crate = file.split("/")[1]
    package = "armillary-py" if crate == "py" else crate
    return ["cargo", "check", "--profile", "ci", "--locked", "--quiet", "-p", package]


def draw(language: str, rooms: dict[str, list[Any]]) -> Iterator[tuple[str, Mutant]]:
    """Mutants of each house, in the order of the seed; one that does not compile is passed over.
    A module of Python is drawn by its length first, then one mutant in it."""
    for name, number in WANTED[language].items():
        dice = random.Random(f"{SEED} {language} {name}")
        taken = 0
        while taken < number:
            if language == "rust":
                mutant = dice.choice(rooms[name])
            else:
                files = rooms[name]
                (path,) = dice.choices(files, [path.stat().st_size for path in files])
                mutant = python(path, dice)
            if mutant is not None and _applies(mutant, language):
                taken += 1
                yield name, mutant


def _rooms(language: str, listed: str) -> dict[str, list[Any]]:
    rooms: dict[str, list[Any]] = {name: [] for name in WANTED[language]}
    if language == "rust":
        for mutant in rust(json.loads(Path(listed).read_text(encoding="utf-8"))):
            rooms[house(mutant["file"])].append(mutant)
    else:
        for path in sorted((ROOT / "python").rglob("*.py")):
            rooms[house(str(path.relative_to(ROOT)))].append(path)
    return rooms


def main(listed: str) -> None:
    """Writes list.yml and the patches."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    rows = []
    for language in WANTED:
        drawn = draw(language, _rooms(language, listed))
        for number, (name, mutant) in enumerate(drawn, start=1):
            key = f"{language}-{number:02}"
            (HERE / f"patches/{key}.patch").write_text(mutant.pop("patch"), encoding="utf-8")
            rows.append({"name": key, "house": name, **mutant})
            print(rows[-1], flush=True)
    table = {"seed": SEED, "commit": commit, "mutants": rows}
    text = yaml.safe_dump(table, sort_keys=False, allow_unicode=True, width=100)
    (HERE / "list.yml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    given = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as settings:
        # mutmut wants settings where it runs, even if they change nothing.
        (Path(settings) / "setup.cfg").write_text("[mutmut]\nsource_paths=.\n", encoding="utf-8")
        os.chdir(settings)
        main(given)
