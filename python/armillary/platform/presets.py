"""The platforms that come with Armillary: `systems/*.yml`, one platform a file."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import InputError, Problem

_SYSTEMS = Path(__file__).resolve().parent.parent / "systems"


def presets() -> list[str]:
    """Names of the platforms that come with Armillary, in order."""
    return sorted(path.stem for path in _SYSTEMS.glob("*.yml"))


def find(name: str) -> Path:
    """The file meant by `name`: a preset, or a path. Raises `InputError` with the nearest names when it is neither."""
    preset = _SYSTEMS / f"{name}.yml"
    if "/" not in name and preset.is_file():
        return preset
    path = Path(name)
    if path.is_file():
        return path
    near = difflib.get_close_matches(name, presets(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    what = "is a directory" if path.is_dir() else "is neither a file nor a preset"
    help_ = f"{hint}a platform file, or one of the presets that `armillary platform list` names"
    raise InputError([Problem(name, "", what, help_)])


def description(name: str) -> str:
    """First comment line of a preset: what it is."""
    with (_SYSTEMS / f"{name}.yml").open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "")
    return first.lstrip("# ").strip() if first.startswith("#") else ""
