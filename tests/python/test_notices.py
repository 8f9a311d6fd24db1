"""Whoever gets Armillary, or a page of it, gets the notices of what others wrote in it."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import notices
import pytest
from conftest import ROOT

SCRIPTS = ROOT / "python/armillary/report/notices.txt"


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo, which knows what is linked")
def test_every_linked_crate_has_a_notice() -> None:
    crates = notices.linked()
    assert {"pyo3", "serde_json"} <= {crate.name for crate in crates}
    text = notices.TARGET.read_text(encoding="utf-8")
    assert notices.missing(crates, text) == []
    assert notices.written(crates) == text, "run tools/notices.py"


def test_a_crate_without_a_notice_is_named() -> None:
    crate = notices.Crate("newcomer", "1.2.3", "MIT", Path("/nowhere"))
    assert notices.missing([crate], notices.TARGET.read_text(encoding="utf-8")) == [
        "newcomer 1.2.3 (MIT)"
    ]


def test_every_script_in_pages_has_a_notice() -> None:
    """The charts' library names the packages that its bundle is made of."""
    import vl_convert

    library = next(Path(vl_convert.__file__).parent.glob("vl_convert*.so")).read_bytes()
    packages = {name.decode() for name in re.findall(rb"npm/([a-z][a-z0-9.-]*)@\d", library)}
    assert {"vega", "vega-lite", "vega-embed"} <= packages
    named = set(re.findall(r"[a-z][a-z0-9.-]*[a-z0-9]", SCRIPTS.read_text(encoding="utf-8")))
    assert packages - named == set()


def test_pages_carry_the_notices() -> None:
    from armillary.report import viewer

    text = viewer.script()
    assert text.startswith("/*\n")
    head = text.split("*/")[0]
    assert "Copyright (c) 2015-2023, University of Washington Interactive Data Lab" in head
    assert SCRIPTS.read_text(encoding="utf-8") in head


@pytest.mark.parametrize("house", ["", "train", "lab"])
def test_the_wheel_has_the_notices(house: str) -> None:
    project = tomllib.loads((ROOT / house / "pyproject.toml").read_text(encoding="utf-8"))
    files = project["project"]["license-files"]
    assert files == ["LICENSE", "THIRD_PARTY_NOTICES.txt"]
    for name in files:
        assert (ROOT / house / name).samefile(ROOT / name)


def test_the_notices_have_those_of_pages() -> None:
    assert SCRIPTS.read_text(encoding="utf-8") in notices.TARGET.read_text(encoding="utf-8")
