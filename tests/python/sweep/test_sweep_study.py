"""Reading studies, the points they make, the problems they have."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import toy_studies
from hypothesis import given
from hypothesis import strategies as st

from armillary.declared import Source
from armillary.errors import InputError
from armillary.sweep import check
from armillary.sweep.points import points
from armillary.sweep.reader import study
from armillary.sweep.source import read
from armillary.sweep.study import SweepStudy
from armillary.units import base, number_text, split

MODEL = {"model": "gpt3-175b", "options": {"pp": 4}}


def made(**changes: object) -> SweepStudy:
    return study(
        Source(toy_studies.study(**{"workload": MODEL, "platform": "dgx-h100-16n", **changes}))
    )


def values(**changes: object) -> list[tuple[Any, ...]]:
    return [each for _, each in points(made(**changes))[0]]


def problems(**changes: object) -> list[str]:
    with pytest.raises(InputError) as raised:
        points(made(**changes))
    return [str(problem) for problem in raised.value.problems]


def test_a_grid_in_order_with_units_kept() -> None:
    found = values()
    assert found[:5] == [
        (1, "10 GB/s"),
        (1, "20 GB/s"),
        (1, "30 GB/s"),
        (1, "40 GB/s"),
        (2, "10 GB/s"),
    ]
    assert len(found) == 12


def test_a_logarithmic_range() -> None:
    found = values(
        parameters={
            "x": {"set": "platform.a", "from": "1 us", "to": "100 us", "steps": 3, "scale": "log"}
        }
    )
    assert found == [("1 us",), ("10 us",), ("100 us",)]


def test_whole_numbers_without_steps() -> None:
    assert values(parameters={"workload.micro_batch": {"from": 2, "to": 5}}) == [
        (2,),
        (3,),
        (4,),
        (5,),
    ]


def test_rows_times_grid() -> None:
    rows = [{"workload.tp": 2, "workload.dp": 4}, {"workload.dp": 8, "workload.tp": 1}]
    assert values(rows=rows, parameters={"backend": ["analytical", "link"]}) == [
        (2, 4, "analytical"),
        (2, 4, "link"),
        (1, 8, "analytical"),
        (1, 8, "link"),
    ]
    assert values(rows=rows, parameters=None) == [(2, 4), (1, 8)]


def test_constraints_see_parameters_options_and_their_defaults() -> None:
    parameters = {"workload.tp": [1, 2, 4, 8], "workload.dp": [2, 4, 8]}
    platform = {"file": "dgx-h100-16n", "npus": 64}
    found = values(
        parameters=parameters, platform=platform, constraints=["tp * workload.dp * pp * cp == npus"]
    )
    assert found == [(2, 8), (4, 4), (8, 2)]


def test_random_draws_have_a_stream_each() -> None:
    parameters: dict[str, Any] = {
        "workload.tp": [1, 2, 4, 8],
        "outer": {
            "set": "platform.links[1].bandwidth",
            "from": "10 GB/s",
            "to": "400 GB/s",
            "scale": "log",
        },
        "inner": {"set": "platform.links[0].latency", "mean": "500 ns", "deviation": "50 ns"},
    }
    search = {"kind": "random", "points": 200}
    found = values(parameters=parameters, search=search, constraints="tp > 1")
    fewer = values(
        parameters={key: parameters[key] for key in ("workload.tp", "outer")}, search=search
    )
    alone = values(parameters={"outer": parameters["outer"]}, search=search)
    assert len(found) == 200
    assert {each[0] for each in found} == {2, 4, 8}
    assert [each[1] for each in fewer] == [each[0] for each in alone]
    assert values(parameters=parameters, search=search, seed=1) != found
    numbers = [float(base(each[1]) or 0) for each in found]
    assert 10e9 <= min(numbers) < 25e9
    assert 160e9 < max(numbers) <= 400e9
    middle = sorted(float(base(each[2]) or 0) for each in found)[100]
    assert middle == pytest.approx(500e-9, rel=0.03)


def test_the_first_draws_never_change() -> None:
    """A study printed in a paper is the same study later: SHA-256 and Mersenne Twister, by hand."""
    import hashlib
    import random

    found = values(
        parameters={"workload.tp": {"from": 1, "to": 1000}},
        search={"kind": "random", "points": 3},
        seed=7,
    )
    stream = random.Random(int.from_bytes(hashlib.sha256(b"7/workload.tp").digest(), "big"))
    assert found == [(1 + int(stream.random() * 1000),) for _ in range(3)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"paramters": {}}, "paramters: unknown key (allowed: parameters)"),
        ({"parameters": None}, "parameters: is missing: nothing varies"),
        (
            {"parameters": {"workload.tq": [1]}},
            "parameters.workload.tq: tq is not an option of this workload (allowed: tp",
        ),
        (
            {"workload": {"model": "gpt3-175b", "options": {"tq": 1}}},
            "workload.options.tq: tq is not an option",
        ),
        ({"workload": {"model": "gpt4"}}, "workload.model: gpt4: there is no such model"),
        (
            {"workload": {"model": "gpt3-175b", "path": "x"}},
            "workload: has both a path and a model",
        ),
        ({"workload": None}, "workload: is missing"),
        (
            {"platform": "dgx-h100-16x"},
            "platform.file: dgx-h100-16x: there is no preset and no file of this name",
        ),
        ({"platform": None}, "platform: has no file"),
        (
            {"platform": {"file": "a", "npus": 0}},
            "platform.npus: invalid count: 0 (allowed: a whole number from 1)",
        ),
        (
            {"backend": "ns3"},
            "backend: unknown backend 'ns3' (allowed: analytical, link, flow, packet, flit)",
        ),
        ({"seed": -1}, "seed: invalid count: -1 (allowed: a whole number from 0 to 2^64 - 1)"),
        (
            {"parameters": {"bandwidth": [1]}},
            "parameters.bandwidth: 'bandwidth' can't be set (allowed: backend, workload.model",
        ),
        (
            {"parameters": {"workload.tp": 8}},
            "parameters.workload.tp: 8 is not a list of values (allowed: a list of values, {from",
        ),
        ({"parameters": {"workload.tp": []}}, "parameters.workload.tp: [] is not a list of values"),
        (
            {"parameters": {"workload.tp": [1, None]}},
            "parameters.workload.tp[1]: invalid value: None",
        ),
        ({"parameters": {"workload.tp": [1, 2, 1]}}, "parameters.workload.tp[2]: 1 is there twice"),
        (
            {"parameters": {"mfu": {"set": "workload.tp", "values": [1]}}},
            "parameters.mfu: mfu is a column of results",
        ),
        (
            {"parameters": {"workload.tp": [1], "b": {"set": "workload.tp", "values": [1]}}},
            "is set by another parameter",
        ),
        (
            {"parameters": {"platform.x": {"from": "1 GB/s", "to": "1 us", "steps": 2}}},
            "from is in GB/s, to is in us (allowed: the same unit)",
        ),
        (
            {"parameters": {"platform.x": {"from": 4, "to": 2}}},
            "parameters.platform.x: from 4 to 2 is not a range",
        ),
        (
            {"parameters": {"platform.x": {"from": 1.5, "to": 2}}},
            "a grid of this range needs steps",
        ),
        ({"parameters": {"platform.x": {"mean": 1, "deviation": 1}}}, "is for random searches"),
        (
            {"parameters": {"platform.x": {"from": 0, "to": 9, "step": 2}}},
            "x.step: unknown key (allowed: steps",
        ),
        (
            {"parameters": {f"platform.{x}": {"from": 1, "to": 999} for x in "abc"}},
            "make 997,002,999 points",
        ),
        ({"constraints": ["tp * qq == 1"]}, "constraints[0]: unknown name qq in 'tp * qq == 1'"),
        ({"constraints": ["tp ="]}, "constraints[0]: 'tp =': is not an expression"),
        ({"constraints": ["tp == 999"]}, "the constraints leave 0 of 12 combinations"),
        (
            {"constraints": ["chunks / (chunks - 1) > 0"]},
            "at platform.scheduler.chunks=1, outer=10 GB/s: divides by zero",
        ),
        (
            {"search": "bayes"},
            "search: unknown search 'bayes' (allowed: grid, random, optuna)",
        ),
        ({"search": {"kind": "random"}}, "search.points: is missing"),
        ({"search": {"points": 5}}, "search.points: go with random and optuna, not with grid"),
        (
            {"search": {"kind": "random", "points": 5, "batch": 2}},
            "search.batch: goes with optuna, not with random",
        ),
        (
            {"search": {"minimize": "memory", "maximize": "memory_bytes"}},
            "search.maximize: memory_bytes is there twice",
        ),
        (
            {"search": {"kind": "optuna", "points": 5}},
            "search: has no objective (allowed: minimize: step_time_ns)",
        ),
        (
            {"search": {"kind": "optuna", "points": 5, "minimize": "time"}},
            "search.minimize: 'time' is not a column of numbers",
        ),
        (
            {"rows": [{"workload.tp": 1}, {"workload.dp": 1}]},
            "rows[1]: has workload.dp (allowed: as the first row",
        ),
    ],
    ids=lambda each: str(each)[:40],
)
def test_problems(changes: dict[str, Any], expected: str) -> None:
    assert any(expected in problem for problem in problems(**changes)), problems(**changes)


def test_all_problems_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(
        "workload: {model: gpt3-175b}\nplatform: dgx-h100\nbackend: ns3\nparameters:\n  "
        "workload.tq: [1]\n"
    )
    found = [str(problem).removeprefix(f"{path}: ") for problem in check(path)]
    assert [each.split(" (")[0] for each in found] == [
        "line 3: backend: unknown backend 'ns3'",
        "line 5: parameters.workload.tq: tq is not an option of this workload",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1", "line"),
        ("- 1", "is not a mapping"),
        ("a: &x 1\nb: *x", "uses an alias"),
        ("a: 1\nb: 2\na: 3", "line 1: a: is given twice, in line 3 again"),
        ("[" * 2000 + "]" * 2000, "line 1: is nested too deeply"),
        ("a: " + "9" * 5000, "can't be read"),
    ],
)
def test_files_that_are_no_studies(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(text)
    assert expected in str(check(path)[0])
    assert "can't be read: No such file" in str(check(tmp_path / "none.yml")[0])


def test_check_tries_every_point_and_says_which(tmp_path: Path) -> None:
    content = toy_studies.study(
        parameters={"platform.scheduler.chunks": [1, 0, 4], "backend": ["analytical", "link"]}
    )
    found = check(toy_studies.write(tmp_path, content))
    assert len(found) == 1
    assert (
        found[0].place == "2 of 6 points, the first platform.scheduler.chunks=0, backend=analytical"
    )
    assert "scheduler.chunks" in found[0].message
    assert check(toy_studies.write(tmp_path, toy_studies.study())) == []


def test_paths_start_from_the_study(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    assert study(read(path)).source.folder == str(tmp_path)


@given(
    st.decimals(0, 10**6, places=3, allow_nan=False),
    st.sampled_from(["GB/s", "Gb/s", "ns", "MiB", "TFLOPS"]),
)
def test_quantities_round_trip(number: Decimal, unit: str) -> None:
    found = split(f"{number} {unit}")
    assert found is not None
    assert found == (found[0], unit)
    again = split(f"{number_text(found[0])} {unit}")
    assert again is not None
    assert float(again[0]) == pytest.approx(float(found[0]), rel=5e-6)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "x", "1 GB/s", "2 us", "tp", "optuna"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "from",
                    "to",
                    "steps",
                    "values",
                    "set",
                    "mean",
                    "deviation",
                    "kind",
                    "points",
                    "model",
                    "path",
                ]
            )
            | st.sampled_from(
                [
                    "file",
                    "npus",
                    "settings",
                    "options",
                    "groups",
                    "minimize",
                    "batch",
                    "workload.tp",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = [
    "workload",
    "platform",
    "backend",
    "seed",
    "fold",
    "parameters",
    "rows",
    "constraints",
    "search",
    "name",
]


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5))
def test_any_mapping_is_a_study_or_refused(changes: dict[str, Any]) -> None:
    try:
        found = made(**changes)
        if found.search.kind != "optuna":
            points(found)
    except InputError as error:
        assert all(problem.message for problem in error.problems)


def test_units() -> None:
    assert base("8 Gb/s") == base("1 GB/s") == 10**9
    assert base("1 KiB") == 1024
    assert base("2.5 us") == base("2500 ns")
    assert base("ring") is base("3") is base("3 apples") is None
