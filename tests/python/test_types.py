"""The stub of the native half names what there is. `make lint` checks types."""

from pathlib import Path

import stubs


def test_stub_names_what_there_is(tmp_path: Path) -> None:
    stubs.check("armillary._core", tmp_path)
