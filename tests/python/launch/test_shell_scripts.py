"""Scripts as text: words, variables, arrays and conditions, as bash has them."""

from __future__ import annotations

import subprocess

import pytest

from armillary.launch.shell import read_script

SCRIPTS = (
    "run a  'b c' \"d e\" f\\ g\n",
    'A=1; B="$A 2"; run $B "$B" \'$B\' ${A}x\n',
    "A=(x 'y z' w); A+=(v); run \"${A[@]}\"\n",
    "A=(a b); run ${A[@]} end\n",
    'A="x\ny"; run $A # a comment\n',
    "run a \\\n  b \\\n  c # d\n",
    'run ${NONE:-5} ${NONE:-"six"} ${NONE:+7} x${NONE:-}\n',
    'A=1; run ${A:-5} ${A:+7} ${A:+--flag "$A"}\n',
    'A=1; A+=2; run $A; export B=3 C=4; run "$B$C"\n',
    'A="a#b"; run $A a#b "#c"\n',
    'A="--x 1 "; A="${A} --y 2"; run $A\n',
    'A=5; run "a=$A" b=${A}\n',
    "if [ 1 -eq 1 ]; then run yes; else run no; fi\n",
    "A=x; if [[ $A == y ]]; then run y; elif [[ $A == x ]]; then run x; else run no; fi\n",
    'A=; if [ -z "$A" ]; then run empty; fi; if [ -n "$A" ]; then run full; fi\n',
    'A=1; if [ -z "$A" ]; then run empty; fi; if [ -n "$A" ]; then run full; fi\n',
    'A=x; if [ "$A" != x ]; then run other; fi; if ! [ 1 = 2 ]; then run later; fi\n',
    "A=3; if [ $A -gt 2 ] && [ $A -lt 4 ]; then run both; fi\n",
    "A=3; if [ $A -ge 4 ] || [ $A -le 3 ]; then run either; fi\n",
    "if [ 1 = 2 ]; then if [ 1 = 1 ]; then run a; fi; run b; else run c; fi\n",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_those_of_bash(script: str) -> None:
    """Each command `run` has the words that bash gives it."""
    function = "run() { printf '%s\\0' \"$@\"; printf '\\n'; }\n"
    said = subprocess.run(
        ["bash", "-c", function + script], capture_output=True, text=True, check=True
    ).stdout
    wanted = [line.split("\0") for line in said.split("\0\n")[:-1]]
    found = [
        [word.text for word in command[1:]]
        for command in read_script(script, "x").commands
        if command[0].text == "run"
    ]
    # A negated test is not decided.
    undecided = "! [" in script
    assert (found[: len(wanted)] if undecided else found) == wanted


def test_values_that_a_script_does_not_say_are_named() -> None:
    script = read_script('A=$(nproc)\nrun $A "$1" `date` $B ${C:-$D}\n', "x")
    unknown = [word.unknown for word in script.commands[0][1:]]
    assert unknown == [("$(nproc)",), ("$1",), ("`date`",), ("$B",), ("$D",)]


def test_defaults_that_are_taken_are_named() -> None:
    script = read_script("run ${A:-5} ${1:-x}\n", "x")
    assert [word.assumed for word in script.commands[0][1:]] == [
        ("A is taken as 5, its default",),
        ("argument 1 is taken as x, its default",),
    ]


def test_what_depends_on_a_condition_says_so() -> None:
    script = read_script("if [ -f y ]; then A=1; fi\nrun $A\nfor i in 1; do run $i; done\n", "x")
    (first, second) = [command for command in script.commands if command[0].text == "run"]
    assert first[1].unknown == ("A, which depends on the condition before line 1",)
    assert second[0].unknown == ("a loop",)
