"""Presets as they print read back to themselves."""

from __future__ import annotations

import pytest

from armillary.platform import Platform


@pytest.mark.parametrize(
    "name", ["dgx-a100", "dgx-h100", "dgx-b300", "gb200-nvl72", "l40s-8", "rtx-pro-6000-8"]
)
def test_a_printed_preset_reads_back(name: str) -> None:
    platform = Platform.load(name)
    again = Platform.parse(platform.to_yaml(), name)
    assert again.to_yaml() == platform.to_yaml()
    assert again.describe() == platform.describe()
