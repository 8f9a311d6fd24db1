"""The stub of the laboratory's native half names what there is."""

from pathlib import Path

import stubs


def test_stub_names_what_there_is(tmp_path: Path) -> None:
    stubs.check("armillary_lab._peers", tmp_path)
