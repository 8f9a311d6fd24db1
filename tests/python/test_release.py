"""What `make release` writes: the version everywhere, the changelog's part, the notes."""

from __future__ import annotations

import re

import pytest
import release
from conftest import ROOT

CHANGELOG = """# Changelog

## Unreleased

### Added

- Wheels.

## 0.1.0

The first release.
"""


def test_what_is_unreleased_becomes_the_version() -> None:
    after = release.released(CHANGELOG, "0.2.0", "2026-12-01")
    assert "## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n### Added\n\n- Wheels." in after
    assert release.notes(after, "0.2.0") == "### Added\n\n- Wheels.\n"
    assert release.notes(after, "0.1.0") == "The first release.\n"


def test_nothing_to_release() -> None:
    empty = "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\nThe first release.\n"
    with pytest.raises(SystemExit, match="nothing under"):
        release.released(empty, "0.2.0", "2026-12-01")
    with pytest.raises(SystemExit, match=r"no part .## 0\.3\.0"):
        release.notes(empty, "0.3.0")


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1", "one"])
def test_versions_that_are_refused(version: str) -> None:
    with pytest.raises(SystemExit, match=f"invalid version: '{version}'"):
        release.release(version)


@pytest.mark.parametrize("name", ["Cargo.toml", "CITATION.cff"])
def test_the_version_is_written_once(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    after = release.numbered(text, "7.8.9")
    changed = [line for line in after.splitlines() if line not in text.splitlines()]
    assert len(changed) == 1
    assert re.fullmatch(r'version(: | = ")7\.8\.9"?', changed[0])


def test_all_files_have_the_same_version() -> None:
    packages = [(ROOT / name).read_text("utf-8") for name in release.PACKAGES]
    pinned = re.findall(r'"armillary[\w-]*(?:\[[\w-]+\])?==([^"]+)"', "".join(packages))
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    cargo = re.search(r'^version = "([^"]+)"$', (ROOT / "Cargo.toml").read_text("utf-8"), re.M)
    assert citation
    assert cargo
    assert citation[1] == cargo[1]
    assert {*pinned} == {cargo[1]}
    assert len(pinned) >= 6
    assert f"## {cargo[1]}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_packages_pin_each_other() -> None:
    assert release.numbered('    "armillary==0.1.0",\n', "7.8.9") == '    "armillary==7.8.9",\n'
