"""Lines of a program that open files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

OPENS = re.compile(
    r"(?<!documents)(?<!gzip)(?<!tarfile)\.(read_text|read_bytes|open)\(|(?<![\w.])open\("
    r"|np\.(load|fromfile|loadtxt)\(|torch\.load\(|json\.load\("
)
"""Calls that open a file, or read one whole."""
READS_NOT = re.compile(r"def (open|read_bytes)\(|os\.open\(|\.open\([^)]*[\"'][awx]")
"""Definitions, descriptors, and files that are opened to write."""


def opened(path: Path) -> Iterator[str]:
    """Lines that open a file to read it, without comments and documentation."""
    text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for line in text.splitlines():
        code = line.split("  #")[0]
        if OPENS.search(code) and not READS_NOT.search(code):
            yield line.strip()
