"""The clone of the repository whose documents and presets some programs of the laboratory write."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def demand(file: Path) -> None:
    """Ends the program with exit code 2 where a file of the clone is not there."""
    if not file.is_file():
        name = file.relative_to(ROOT)
        sys.stderr.write(f"error: no {name}\n  allowed: the laboratory in a clone (make lab)\n")
        raise SystemExit(2)
