"""tools/notices.py [--check]: writes THIRD_PARTY_NOTICES.txt, or says what is missing in it (exit
code 1).

The file goes into the wheels. It has the licence of every crate that is linked into an extension
module, from the crates' own sources, and of the scripts that pages carry
(`python/armillary/report/notices.txt`, kept by hand: their minified texts have no licences). Where
a crate offers a choice, MIT is taken, else what it has. Needs cargo, and the sources that a build
has fetched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "THIRD_PARTY_NOTICES.txt"
SCRIPTS = ROOT / "python/armillary/report/notices.txt"
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
)
"""Targets that wheels are built for."""
EXTENSIONS = ("armillary-py", "armillary-train", "armillary-peers")
"""Crates that are extension modules."""
_HEAD = """Third-party notices
===================

Armillary is under the Apache License 2.0 (LICENSE). Its native modules link the Rust crates below and Rust's standard
library (The Rust Project Developers, MIT or Apache-2.0); its pages carry the scripts at the end.
Written by tools/notices.py.
"""  # noqa: E501
_RULE = "-" * 80
_MIT = """MIT License

Copyright (c) {holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
_HOLDERS = {"etherparse": "Julian Schmid"}
"""Crates that offer MIT and have no file of it."""


@dataclass(frozen=True, order=True)
class Crate:
    """A crate that is linked in."""

    name: str
    version: str
    licence: str
    folder: Path

    @property
    def title(self) -> str:
        """As the notices name it."""
        return f"{self.name} {self.version} ({self.licence})"

    def texts(self) -> list[str]:
        """Licences of the package, as its source has them; none where it has no file."""
        files = sorted(
            file
            for pattern in ("LICEN[SC]E*", "COPYING*", "UNLICENSE*", "NOTICE*", "license*")
            for file in self.folder.glob(pattern)
            if file.is_file()
        )
        if not files and self.name in _HOLDERS:
            return [_MIT.format(holder=_HOLDERS[self.name])]
        choice = [
            file for file in files if "MIT" in file.name.upper() and " AND " not in self.licence
        ]
        notices = [file for file in files if file.name.upper().startswith("NOTICE")]
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in choice or files]
        return [
            *texts,
            *(file.read_text(encoding="utf-8", errors="replace") for file in notices if choice),
        ]


def linked() -> list[Crate]:
    """Every crate of others in the native module, on any platform, without those that only build or
    test it."""
    found = {crate for platform in PLATFORMS for crate in _linked(platform)}
    return sorted(found)


def _linked(platform: str) -> Iterator[Crate]:
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--filter-platform",
        platform,
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    data = json.loads(said)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    left = [key for key, package in packages.items() if package["name"] in EXTENSIONS]
    seen = set(left)
    while left:
        for dependency in nodes[left.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any(
                "proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"]
            )
            if normal and not macro and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                left.append(dependency["pkg"])
    for key in seen:
        package = packages[key]
        if package["source"] is not None:
            folder = Path(package["manifest_path"]).parent
            yield Crate(
                package["name"], package["version"], package["license"] or "see its file", folder
            )


def written(crates: list[Crate]) -> str:
    """The notices, equal texts once. Raises `SystemExit` naming crates without a licence of their
    own."""
    by_text: dict[str, list[Crate]] = defaultdict(list)
    silent = []
    for crate in crates:
        texts = [
            "\n".join(line.rstrip() for line in text.strip().splitlines()) for text in crate.texts()
        ]
        silent += [crate.title] if not texts else []
        for text in texts:
            by_text[text].append(crate)
    if silent:
        raise SystemExit(
            f"no licence in the source of {', '.join(silent)}: add its text to tools/notices.py"
        )
    parts = [_HEAD]
    for text, users in sorted(by_text.items(), key=lambda item: item[1]):
        parts.append("\n".join([_RULE, *(crate.title for crate in users), _RULE, "", text, ""]))
    return "\n".join(
        [*parts, _RULE, "Scripts in pages", _RULE, "", SCRIPTS.read_text(encoding="utf-8")]
    )


def missing(crates: list[Crate], text: str) -> list[str]:
    """Crates that the notices do not name in this version."""
    lines = set(text.splitlines())
    return [crate.title for crate in crates if crate.title not in lines]


def main() -> int:
    """The command line."""
    crates = linked()
    if sys.argv[1:] == ["--check"]:
        absent = missing(crates, TARGET.read_text(encoding="utf-8") if TARGET.is_file() else "")
        for title in absent:
            print(f"no notice of {title}: run tools/notices.py")
        return 1 if absent else 0
    TARGET.write_text(written(crates), encoding="utf-8")
    print(f"{TARGET.name}: {len(crates)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main())
