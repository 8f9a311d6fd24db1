"""tools/release.py VERSION: makes the commit and the tag of a release.

Writes the version into Cargo.toml, both lock files and CITATION.cff, and turns the changelog's
"Unreleased" part into this version's. Then it commits and tags `vVERSION`; pushing the tag starts
the workflow that builds and publishes. `--notes VERSION` prints that version's part of the
changelog."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEADING = re.compile(r"^## (.+)$", re.M)


def notes(changelog: str, version: str) -> str:
    """A version's part of the changelog, without its heading. Raises `SystemExit` if there is
    none."""
    parts = _HEADING.split(changelog)[1:]
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        if title.split(" ")[0] == version:
            return text.strip() + "\n"
    raise SystemExit(f"CHANGELOG.md: no part '## {version}'")


def released(changelog: str, version: str, day: str) -> str:
    """The changelog with what is unreleased under this version's heading. Raises `SystemExit` if
    nothing is unreleased."""
    if not notes(changelog, "Unreleased").strip():
        raise SystemExit("CHANGELOG.md: nothing under '## Unreleased'")
    return changelog.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {day}\n", 1)


PACKAGES = ("pyproject.toml", "train/pyproject.toml", "lab/pyproject.toml")
"""Files that name versions of our packages."""


def numbered(text: str, version: str) -> str:
    """A Cargo.toml, pyproject.toml or CITATION.cff with this version."""
    text = re.sub(r'"(armillary[\w-]*(?:\[[\w-]+\])?)==[^"]+"', rf'"\1=={version}"', text)
    text = re.sub(r'^version = "[^"]+"$', f'version = "{version}"', text, count=1, flags=re.M)
    return re.sub(r"^version: \S+$", f"version: {version}", text, count=1, flags=re.M)


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def release(version: str) -> None:
    """Edits the files, commits and tags."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"invalid version: {version!r}; allowed: such as 0.2.0")
    if _run("git", "status", "--porcelain"):
        raise SystemExit("there are changes that are not committed")
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(released(changelog.read_text("utf-8"), version, day), "utf-8")
    for name in ("Cargo.toml", "CITATION.cff", *PACKAGES):
        path = ROOT / name
        path.write_text(numbered(path.read_text("utf-8"), version), "utf-8")
    _run("cargo", "update", "--workspace", "--offline")
    _run("cargo", "update", "--workspace", "--offline", "--manifest-path", "fuzz/Cargo.toml")
    _run("git", "commit", "--all", "--message", f"house: release {version}")
    _run("git", "tag", "--annotate", f"v{version}", "--message", f"Armillary {version}")
    print(f"made the commit and the tag v{version}; next: git push --follow-tags")


def main() -> None:
    """The command line."""
    match sys.argv[1:]:
        case ["--notes", version]:
            print(notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version), end="")
        case [version]:
            release(version)
        case _:
            raise SystemExit("usage: tools/release.py VERSION, or --notes VERSION")


if __name__ == "__main__":
    main()
