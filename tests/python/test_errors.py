"""Problems name file, place, value and what is allowed."""

import pytest

from armillary import ArmillaryError, InputError, Problem, StalledError


def test_problem_reads_as_one_line() -> None:
    problem = Problem("net.yml", "line 3", "bandwidth -5 is negative", "a bandwidth above zero")
    assert (
        str(problem)
        == "net.yml: line 3: bandwidth -5 is negative (allowed: a bandwidth above zero)"
    )
    assert str(Problem("", "", "nothing to run")) == "nothing to run"


def test_error_lists_every_problem() -> None:
    problems = [Problem("a", "", "x"), Problem("b", "", "y")]
    error = InputError(problems)
    assert error.problems == problems
    assert str(error) == "a: x\nb: y"


@pytest.mark.parametrize("kind", [InputError, StalledError])
def test_both_kinds_can_be_caught_at_once(kind: type[ArmillaryError]) -> None:
    with pytest.raises(ArmillaryError):
        raise kind([Problem("", "", "x")])


def test_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)
    assert not issubclass(StalledError, ValueError)
