"""No traceback reaches a user, whatever is raised."""

from __future__ import annotations

import csv

import pytest

from armillary import _core
from armillary.cli import output


class Odd(BaseException):
    """An error that is no `Exception`, as PyTorch's `CheckpointException`."""


@pytest.mark.parametrize(
    "error",
    [Odd("x"), _core.PanicException("x"), csv.Error("x"), ExceptionGroup("x", [ValueError()])],
)  # fmt: skip
def test_any_error_is_a_line(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, output.guard():
        raise error
    said = capsys.readouterr().err
    assert end.value.code == 70
    assert (
        said.startswith(f"error: internal error: {type(error).__name__}: x")
        and said.count("\n") == 1
    )


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(3), 3)])
def test_ends_on_purpose_keep_their_codes(error: BaseException, code: int) -> None:
    with pytest.raises(SystemExit) as end, output.guard():
        raise error
    assert end.value.code == code
