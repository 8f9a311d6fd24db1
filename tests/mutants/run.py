"""Trial of mutants: do the tests of its house find the fault?

Here: a throw-away worktree with one mutant, the tests of its house, and the verdict. Not here: the
draw (draw.py). A mutant is a patch of the commit in list.yml. On a later revision git carries it to
where its lines are by then, also when the file has moved."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Places of the tests of each house, before and after the houses had folders of their own.
TRAINER = ("train/tests", "train/tests")
LAB = (
    "tests/python/calibrate",
    "tests/python/platform",
    "tests/python/studies",
    "tests/python/validation",
    "lab/tests",
)
TRAINER_CRATES = ("embedding", "ingest", "py-train")
# Extensions that a worktree builds: folder of the project, compiled module in it.
EXTENSIONS = {
    ".": "python/armillary/_core.abi3.so",
    "train": "train/python/armillary_train/_train.abi3.so",
    "lab": "lab/python/armillary_lab/_peers.abi3.so",
}


class Mutant(TypedDict):
    """One row of list.yml."""

    name: str
    house: str
    file: str
    line: int
    function: str
    change: str


class Listed(TypedDict):
    """The file list.yml: the draw's seed, the commit of the old tests, the mutants."""

    seed: int
    commit: str
    mutants: list[Mutant]


def listed() -> Listed:
    """The file list.yml."""
    table: Listed = yaml.safe_load((HERE / "list.yml").read_text(encoding="utf-8"))
    return table


def _git(tree: Path, *arguments: str) -> str:
    names = ("-c", "user.name=mutant", "-c", "user.email=mutant@localhost")
    command = ["git", *names, "-C", str(tree), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def mutated(mutant: str, commit: str, revision: str) -> Iterator[Path]:
    """A worktree of `revision` with the mutant in it, removed afterwards."""
    patch = HERE / f"patches/{mutant}.patch"
    # `HEAD` is that of the clone, not of the worktree.
    revision = _git(ROOT, "rev-parse", revision)
    tree = Path(tempfile.mkdtemp(prefix=f"{mutant}-")) / "tree"
    _git(ROOT, "worktree", "add", "--detach", str(tree), commit)
    try:
        _git(tree, "apply", str(patch))
        _git(tree, "commit", "--all", "--no-verify", "--message", mutant)
        _git(tree, "tag", "--force", f"mutant/{mutant}")
        _git(tree, "checkout", "--detach", revision)
        _git(tree, "cherry-pick", "--no-commit", f"mutant/{mutant}")
        yield tree
    finally:
        _git(ROOT, "worktree", "remove", "--force", str(tree))
        _git(ROOT, "tag", "--delete", f"mutant/{mutant}")
        tree.parent.rmdir()


def environment(tree: Path) -> dict[str, str]:
    """Variables with which Python finds the packages of the worktree before those of the clone."""
    sources = (str(tree / "python"), str(tree / "train/python"), str(tree / "lab/python"))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sources),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYO3_PYTHON": sys.executable,
        "VIRTUAL_ENV": sys.prefix,
        # Kept from one mutant to the next, apart from the builds of the clone.
        "CARGO_TARGET_DIR": str(ROOT / "target/mutants"),
    }


def commands(house: str, language: str, tree: Path) -> list[list[str]]:
    """The tests of a house: Rust's first where the mutant is in Rust, then Python's."""
    rust = ["cargo", "test", "--profile", "ci", "--locked", "--quiet"]
    packages = _packages(tree)
    if house == "trainer":
        rust += [part for name in packages for part in ("-p", name)]
    else:
        rust += ["--workspace", "--exclude", "micro"]
        rust += [part for name in packages for part in ("--exclude", name)]
    here = [
        place
        for place in {"trainer": TRAINER, "lab": LAB}.get(house, ())
        if (tree / place).exists()
    ]
    if house == "simulator":
        ignored = (*TRAINER, "tests/python/studies", "tests/python/validation")
        here = ["tests/python", *(f"--ignore={place}" for place in ignored)]
    python = [sys.executable, "-m", "pytest", "--quiet", "--exitfirst", *here]
    return [rust, python] if language == "rust" else [python]


def _packages(tree: Path) -> list[str]:
    """Names of the trainer's crates in this tree."""
    folders = [
        tree / house / name for house in ("crates", "train/crates") for name in TRAINER_CRATES
    ]
    files = [folder / "Cargo.toml" for folder in folders if folder.is_dir()]
    return [tomllib.loads(file.read_text(encoding="utf-8"))["package"]["name"] for file in files]


def extend(tree: Path, language: str) -> None:
    """Gives the worktree its compiled modules: built from a mutant in Rust, else the clone's."""
    for project, module in EXTENSIONS.items():
        if language == "rust" and (tree / project / "pyproject.toml").exists():
            maturin = [str(Path(sys.executable).with_name("maturin")), "develop", "--skip-install"]
            build = [*maturin, "--profile", "ci", "--quiet"]
            subprocess.run(build, cwd=tree / project, env=environment(tree), check=True)
        elif (ROOT / module).exists() and (tree / module).parent.is_dir():
            shutil.copy(ROOT / module, tree / module)


def killed(todo: Sequence[Sequence[str]], tree: Path) -> str:
    """The first command that fails, which finds the mutant; or nothing."""
    for command in todo:
        done = subprocess.run(command, cwd=tree, env=environment(tree), check=False)
        # Pytest's 5: no test was chosen. A mistake in the choice is no find.
        if done.returncode == 5:
            raise SystemExit(f"no test is in: {' '.join(command)}")
        if done.returncode:
            return " ".join(command)
    return ""


def trial(mutant: Mutant, commit: str, revision: str, chosen: Sequence[str]) -> str:
    """A row for the record: name, revision, verdict, and the command that found the mutant."""
    language = mutant["name"].partition("-")[0]
    with mutated(mutant["name"], commit, revision) as tree:
        extend(tree, language)
        todo = [list(chosen)] if chosen else commands(mutant["house"], language, tree)
        found = killed(todo, tree)
    tried = _git(ROOT, "rev-parse", "--short=8", revision)
    return f"{mutant['name']}\t{tried}\t{'killed' if found else 'survived'}\t{found}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Try mutants against the tests of their houses")
    parser.add_argument("name", nargs="*", help="mutants of list.yml; all of them by default")
    parser.add_argument("--at", default="", help="revision to try; by default that of list.yml")
    parser.add_argument("--record", type=Path, help="file that gets a row for each mutant")
    parser.add_argument("--tests", default="", help="command instead of the tests of the house")
    asked = parser.parse_args()
    table = listed()
    for mutant in table["mutants"]:
        if asked.name and mutant["name"] not in asked.name:
            continue
        row = trial(mutant, table["commit"], asked.at or table["commit"], asked.tests.split())
        print(row, flush=True)
        if asked.record:
            with asked.record.open("a", encoding="utf-8") as record:
                record.write(row + "\n")


if __name__ == "__main__":
    main()
