"""The platforms that come with Armillary: `systems/`, one platform per file.

`systems/parts` holds pieces that platforms extend, `systems/paper` the platforms of papers."""

from __future__ import annotations

from pathlib import Path

SYSTEMS = Path(__file__).resolve().parent.parent / "systems"
"""Folder of the presets."""
_PARTS, _PAPERS = "parts", "paper"


def presets(*, papers: bool = True) -> list[str]:
    """Names of the platforms that come with Armillary, in order; `papers` includes those of
    papers."""
    hidden = {_PARTS} if papers else {_PARTS, _PAPERS}
    files = SYSTEMS.rglob("*.yml")
    return sorted(
        path.stem for path in files if not hidden & set(path.relative_to(SYSTEMS).parts[:-1])
    )
