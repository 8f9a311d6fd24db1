"""The search against the simulation of every layout of small spaces, and its refusals."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.layouts import axes
from armillary.layouts.job import Job
from armillary.layouts.machine_plan import SearchInterrupted
from armillary.layouts.result import LayoutPlan, Ranked
from armillary.layouts.search import Row, Search, opened, search
from armillary.layouts.space import LayoutSpace
from armillary.platform import Platform
from armillary.platform.platform import fit_limits
from armillary.workload.transformer import footprints

PLATFORM = "dgx-h100-16n"


def _drawn(seed: int, experts: bool) -> dict[str, tuple[object, ...]]:
    rng = random.Random(seed)
    some = {
        "tp": (1, 2, 4, 8),
        "pp": (1, 2, 4),
        "cp": (1, 2),
        "micro_batch": (1, 2),
        "zero": (0, 1, 2, 3),
        "schedule": ("1f1b", "zb-h1"),
        "layers_per_stage": (None, "cost"),
        "precision": ("bf16", "fp8"),
        "zero_group": (None, 2, 4),
    }
    found = {name: tuple(sorted(rng.sample(of, 2), key=str)) for name, of in some.items()}
    for name in rng.sample(sorted(found), 4):
        found[name] = found[name][:1]
    one = {
        "virtual_stages": (1,),
        "recompute": ("full",),
        "recompute_modules": (None,),
        "recompute_layers": (None,),
        "overlap_passes": (False,),
    }
    return {**found, **one, "ep": (rng.choice((2, 4)),) if experts else (1,)}


@pytest.mark.parametrize(("model", "seed"), [("llama-3-8b", 1), ("mixtral-8x7b", 3)])
def test_the_winner_equals_that_of_all_simulations(model: str, seed: int) -> None:
    """The best layout of a drawn space is the fastest of all its layouts that fit."""
    given = _drawn(seed, model == "mixtral-8x7b")
    found = search(model, PLATFORM, 32, global_batch=32, seq=2048, layout=given)
    target = Platform.load(PLATFORM, npus=32)
    space = opened(Job.of(model, 32, global_batch=32, seq=2048, layout=given), target).space
    steps = []
    for group, shards in enumerate(space.shards):
        for at in range(len(shards)):
            options = space.options(group, (space.first[group] + at, 0))
            run = arm.simulate(arm.workload.build(model, **options), target)
            if run.fits == "yes":
                steps.append(run.step_time_ns)
    assert len(steps) == found.fitting > 1
    assert found.winner.step_ns == min(steps)
    assert found.gap <= 0.01


def test_recommended_layouts_fit_and_reasons_hold() -> None:
    """`run` agrees that the best layouts fit, and that what was refused does not, until changed."""
    found, target = (
        search(
            "llama-3-70b",
            PLATFORM,
            64,
            global_batch=64,
            layout={"tp": (4, 8), "cp": (1,), "pp": (1, 2, 4)},
        ),
        Platform.load(PLATFORM, npus=64),
    )
    assert [each.fits for each in found.best] == ["yes"] * len(found.best)
    for each in (found.best[0], found.best[-1]):
        run = arm.simulate(arm.workload.build("llama-3-70b", **each.options), target)
        assert run.fits == "yes" and run.step_time_ns == each.step_ns
    assert found.refused
    assert all(each.estimate_ns < found.winner.step_ns for each in found.refused)
    capacity = Platform.load(PLATFORM).describe()["npu"]["memory_capacity_bytes"]
    for refused in found.refused[:3]:
        memory = footprints("llama-3-70b", **refused.options)
        most = max(stage.total for stage in memory)
        assert refused.memory_bytes == most == memory[refused.stage].total
        assert refused.over_bytes == most - fit_limits(capacity)[0]
        if refused.fits_with is not None:
            options = {**refused.options, **refused.fits_with}
            less = footprints("llama-3-70b", **options)
            assert max(stage.total for stage in less) <= fit_limits(capacity)[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["tp"], "has no values"),
        (["tp="], "has no values"),
        (["tpp=1"], "is unknown"),
        (["dp=4"], "is decided by the search"),
        (["lora_rank=4"], "is not searched"),
        (["recompute_method=uniform"], "is not searched"),
        (["recompute_layers=0,2"], "0 recomputes no layer"),
        (["bucket_mb=25"], "describes a framework"),
        (["tp=1", "tp=2"], "is given twice"),
        (["tp=4..2"], "invalid range: 4..2"),
        (["tp=1..9999"], "invalid range: 1..9999"),
        (["zero=7"], "7"),
        (["schedule=zigzag"], "zigzag"),
    ],
)
def test_wrong_values_are_refused(given: list[str], said: str) -> None:
    """Each wrong value is an error with a way out."""
    with pytest.raises(InputError) as error:
        axes.read(given, "llama-3-8b")
    assert said in str(error.value)


def test_values_are_read() -> None:
    """Ranges, no value, and modules that are recomputed together."""
    given = ["tp=1..3,8", "recompute_layers=none,4", "recompute_modules=mlp,layernorm+activation"]
    assert axes.read([*given, "layers_per_stage=none,cost,9*2+7*2"], "llama-3-8b") == {
        "tp": (1, 2, 3, 8),
        "layers_per_stage": (None, "cost", "9*2,7*2"),
        "recompute_layers": (None, 4),
        "recompute_modules": ("mlp", "layernorm,activation"),
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1], "is not a mapping from options to values"),
        ({"tpp": 1}, "is unknown"),
        ({1: 1}, "is unknown"),
        ({"dp": 4}, "is decided by the search"),
        ({"tp": ()}, "has no values"),
        ({"tp": None}, "invalid value: None"),
        ({"tp": (4, "x")}, "invalid count: 'x'"),
        ({"tp": True}, "invalid count: True"),
        ({"tp": 1.5}, "invalid count: 1.5"),
        ({"zero": range(8)}, "invalid count: 4"),
        ({"precision": "bf17"}, "unknown precision 'bf17'"),
        ({"recompute": ["full", {}]}, "unknown recompute"),
    ],
)
def test_wrong_values_from_python_are_refused(given: Any, said: str) -> None:  # noqa: ANN401
    """Each wrong value is an error with a way out, before anything is searched."""
    with pytest.raises(InputError) as error:
        search("llama-3-8b", PLATFORM, 8, global_batch=8, layout=given)
    assert said in str(error.value)


def test_one_value_is_a_list_of_one() -> None:
    """Words are not lists of letters."""
    given = {"tp": 1, "recompute": "full", "zero_group": [None, 2], "pp": range(1, 3)}
    assert axes.checked(given, "llama-3-8b") == {
        "tp": (1,),
        "recompute": ("full",),
        "zero_group": (None, 2),
        "pp": (1, 2),
    }


def test_spaces_without_a_layout_are_refused() -> None:
    """No layout divides the heads, or none fits; the error says which."""
    with pytest.raises(InputError, match="no layout of these values on 8 ranks"):
        search("llama-3-8b", PLATFORM, 8, global_batch=8, layout={"tp": (3,)})
    with pytest.raises(InputError, match="no layout fits: each needs"):
        search("llama-3-405b", PLATFORM, 8, global_batch=8)


class _Core:
    """Two layouts; the faster one is kept only when its bound is below what is asked for."""

    every: tuple[Row, ...] = (
        (0, (0, 0), 10_000, 10_000, 1, 0, "yes"),
        (1, (1, 0), 15_000, 30_000, 1, 0, "yes"),
    )
    layouts = 2

    def __init__(self) -> None:
        self.least = 10_000

    def search(
        self, limits: object, near: bool, wanted: tuple[int, int], say: object
    ) -> tuple[int, int, int, int]:
        self.least = max(self.least, wanted[1])
        return 2, 0, 0, self.least

    @property
    def kept(self) -> int:
        return len(self.fastest(0, 2))

    def fastest(self, first: int, count: int) -> list[Row]:
        return [row for row in self.every if row[2] <= self.least]


class _Fake(Search):
    """A search whose layouts have known steps."""

    @classmethod
    def of(cls, simulations: int) -> _Fake:
        """With a greatest number of simulations."""
        job = cast("Job", SimpleNamespace(simulations=simulations, near=False))
        space = cast("LayoutSpace", SimpleNamespace(parts=SimpleNamespace(space=_Core())))
        return cls(job, Platform.load(PLATFORM), None, space, (1, 1))

    def simulated(self, row: Row) -> Ranked:
        """The layout with its step."""
        step = {0: 20.0, 1: 16.0}[row[0]]
        return Ranked({"tp": row[0]}, step, row[2] / 1e3, row[3] / 1e3, 1, "yes")


def test_low_estimates_hide_no_layout() -> None:
    """A layout that no estimate was near to is found by its bound, or counted as open."""

    def proved(simulations: int) -> tuple[list[float], list[Row]]:
        found = _Fake.of(simulations)
        found.look(lambda _: None)
        found.prove(lambda _: None)
        steps = [each.step_ns for each in found.best]
        return steps, found.open_rows(steps[0])

    assert proved(2) == ([16.0, 20.0], [])
    assert proved(1) == ([20.0], [_Core.every[1]])


def test_a_stopped_search_keeps_what_it_proved() -> None:
    """After a Ctrl-C the gap follows from the bounds that are known by then."""

    def stops(_: float) -> None:
        raise KeyboardInterrupt

    found = _Fake.of(9)
    found.look(lambda _: None)
    found.late(lambda: found.prove(stops))
    assert found.stop and [each.step_ns for each in found.best] == [20.0]
    # The layout with a bound of 15 ns is unknown; the smallest bound that it can have is known.
    assert found.open_rows(20.0) == [] and found.gap([]) == 0.5
    assert found.late(lambda: 1) is None


def test_nothing_is_kept_before_the_first_simulation() -> None:
    """A signal before it ends the search."""

    def stops(_: Row) -> Ranked:
        raise KeyboardInterrupt

    found = _Fake.of(9)
    found.look(lambda _: None)
    found.simulated = stops  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        found.late(lambda: found.prove(lambda _: None))


def test_a_search_that_is_stopped_while_it_explains_keeps_its_answer() -> None:
    """A signal after the proof leaves out what is added to it."""

    def stops(share: float) -> None:
        if share == 1:
            raise KeyboardInterrupt

    given = {"tp": (1, 2), "pp": (1,), "zero": (1,), "recompute": ("full",)}
    job = ("llama-3-8b", PLATFORM, 16)
    whole = search(*job, global_batch=32, layout=given, simulations=1)
    with pytest.raises(SearchInterrupted) as stopped:
        search(*job, global_batch=32, layout=given, simulations=1, progress=stops)
    found = stopped.value.found
    assert isinstance(found, LayoutPlan)
    assert found.stopped and found.winner == whole.winner
    assert found.gap >= whole.gap and found.refused == []
    assert any("interrupted: 1 layout simulated" in each for each in found.warnings)


def test_a_graph_of_switches_is_refused() -> None:
    """Bytes are counted by dimension, and a graph has none."""
    with pytest.raises(InputError, match="is a graph of switches"):
        search("llama-3-8b", Platform.load("dgx-h100-superpod"), 1024, global_batch=1024)
