"""Several machines: the joint best against the best of each, and against brute force; refusals."""

from __future__ import annotations

import math
import random

import pytest
from thorough import some, usually

import armillary as arm
from armillary.errors import InputError
from armillary.layouts.job import Job
from armillary.layouts.least import fewest, least_bytes
from armillary.layouts.machine_page import verdict
from armillary.layouts.machine_plan import MachinePlan, SearchInterrupted
from armillary.layouts.machines import read_prices, read_ranks
from armillary.layouts.search import opened
from armillary.layouts.space import space_of
from armillary.layouts.timing import NoClock
from armillary.platform import Platform
from armillary.workload.transformer import footprints

PLATFORMS = ("dgx-h100-16n", "dgx-a100-16n")
PRICES = {"dgx-h100-16n": 2.5, "dgx-a100-16n": 1.25}
FEW = {
    "tp": (1, 2),
    "pp": (1, 2),
    "cp": (1,),
    "micro_batch": (1, 2),
    "zero": (1, 3),
    "schedule": ("1f1b",),
    "virtual_stages": (1,),
    "recompute": ("none", "full"),
    "recompute_modules": (None,),
    "recompute_layers": (None,),
    "layers_per_stage": (None,),
    "zero_group": (None,),
}
RUN = {"global_batch": 32, "seq": 2048}


def _values(found: MachinePlan, layout: dict[str, tuple[object, ...]]) -> list[tuple[float, ...]]:
    """Step, its dollars, and memory of the fullest rank of every layout of each machine of an
    answer that fits, simulated."""
    values: list[tuple[float, ...]] = []
    for machine in found.machines:
        target = Platform.load(machine.platform, npus=machine.ranks)
        space = opened(Job.of(found.model, 1, layout=layout, **RUN), target).space  # type: ignore[arg-type]
        for group, shards in enumerate(space.shards):
            for at in range(len(shards)):
                options = space.options(group, (space.first[group] + at, 0))
                run = arm.simulate(arm.workload.build(found.model, **options), target)
                if run.fits == "yes":
                    held = max(stage.total for stage in footprints(found.model, **options))
                    dollars = machine.ranks * (machine.price or 0) * run.step_time_ns
                    values.append((run.step_time_ns, dollars, held))
    return values


def _drawn(seed: int) -> tuple[list[str], list[int], dict[str, tuple[object, ...]], str]:
    """Platforms, numbers of ranks, values and an objective: networks times parallelism."""
    rng = random.Random(seed)
    layout: dict[str, tuple[object, ...]] = {
        **FEW,
        "tp": tuple(rng.sample((1, 2, 4), 2)),
        "pp": tuple(rng.sample((1, 2, 4), rng.choice((1, 2)))),
        "zero": tuple(rng.sample((0, 1, 2, 3), rng.choice((1, 2)))),
        "micro_batch": (rng.choice((1, 2)),),
        "recompute": (rng.choice(("none", "full")),),
    }
    names = list(rng.sample(PLATFORMS, rng.choice((1, 2))))
    return names, sorted(rng.sample((8, 16, 32), 2)), layout, rng.choice(("time", "cost", "memory"))


@pytest.mark.parametrize("seed", range(usually(2, 100)))
def test_the_joint_best_equals_brute_force(seed: int) -> None:
    """The best machine and layout of a drawn space are those of all simulations: the time within
    the printed gap, memory to the byte."""
    names, ranks, layout, objective = _drawn(seed)
    found = arm.plan(
        "llama-3-8b", names, ranks, objective=objective, prices=_prices(names), layout=layout, **RUN
    )
    assert isinstance(found, MachinePlan)
    values = _values(found, layout)
    best, machine = found.winner, found.machine
    own = best.step_ns, machine.ranks * (machine.price or 0) * best.step_ns, best.memory_bytes
    assert own in values
    key = {"time": 0, "cost": 1, "memory": 2}[objective]
    least = min(value[key] for value in values)
    gap = 0.0 if objective == "memory" else found.gap
    assert own[key] * (1 - gap) <= least * (1 + 1e-12) and least <= own[key]
    if objective == "memory":
        same = min(value[0] for value in values if value[2] == least)
        assert own[0] * (1 - found.gap) <= same * (1 + 1e-12) and same <= own[0]
    # What bounds prove of the front: nothing of at most its memory is far better in everything.
    for point in found.front:
        price = PRICES[found.machines[point.machine].platform]
        dollars = found.machines[point.machine].ranks * price * point.step_ns
        for step, cost, memory in values:
            if memory <= point.memory_bytes:
                faster, cheaper = 1 - step / point.step_ns, 1 - cost / dollars
                assert min(faster, cheaper) <= point.gap + 1e-9


def _prices(names: list[str]) -> dict[str, float]:
    """Prices of some platforms."""
    return {name: PRICES[name] for name in names}


def test_a_job_takes_the_cheapest_machine_that_is_in_time() -> None:
    """Days and dollars follow from the step; machines that are too slow name the one that is
    not."""
    ranks = [8, 16, 32]
    given = {"layout": FEW, "prices": {"dgx-h100-16n": 2.5}, **RUN}
    alone = [arm.plan("llama-3-8b", "dgx-h100-16n", each, layout=FEW, **RUN) for each in ranks]
    steps = math.ceil(3e11 / (32 * 2048))
    days = [steps * each.winner.step_ns / 8.64e13 for each in alone]
    limit = (days[0] + days[1]) / 2
    found = arm.plan("llama-3-8b", "dgx-h100-16n", ranks, tokens="300B", days=limit, **given)
    assert found.steps == steps and found.objective == "cost"
    assert [each.days for each in found.machines] == pytest.approx(days, rel=0.01)
    assert found.machines[0].status == "late"
    assert f"takes {days[0]:,.1f} days, more than" in found.machines[0].reason
    assert f"16 NPUs take {days[1]:,.1f}" in found.machines[0].reason
    dollars = [day * 24 * count * 2.5 for day, count in zip(days, ranks, strict=True)]
    assert found.machine.dollars == pytest.approx(min(dollars[1:]), rel=0.01)
    with pytest.raises(InputError, match="no number of these NPUs"):
        arm.plan("llama-3-8b", "dgx-h100-16n", ranks, tokens="300B", days=days[2] / 2, **given)


@pytest.mark.parametrize(
    ("model", "ranks"), some([("mixtral-8x7b", 16), ("llama-3-8b", 16), ("llama-3-70b", 16)], 3)
)
def test_a_few_layouts_have_the_least_memory(model: str, ranks: int) -> None:
    """The least memory of the few layouts that are weighed is that of all layouts."""
    target = Platform.load("dgx-h100-16n", npus=ranks)
    few: dict[str, tuple[object, ...]] = {"micro_batch": (1, 2), "virtual_stages": (1, 2)}
    job = Job.of(model, ranks, global_batch=64, layout=usually(few, {}))
    space = space_of(job, target, NoClock(target))
    space.fill()
    assert least_bytes(job, target) == space.parts.space.least_bytes()


def _stopped(after: int) -> MachinePlan:
    """The answer of a search over two machines that is stopped after a number of simulations."""
    known = iter(range(after))

    def says(share: float) -> None:
        if share > 0.5 and next(known, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(SearchInterrupted) as stopped:
        arm.plan("llama-3-8b", PLATFORMS, 16, layout=FEW, progress=says, objective="time", **RUN)
    found = stopped.value.found
    assert isinstance(found, MachinePlan)
    return found


def test_a_stopped_search_over_machines_keeps_what_it_proved() -> None:
    """The gap holds for all layouts of all machines, also of those that were not simulated."""
    whole = arm.plan("llama-3-8b", PLATFORMS, 16, layout=FEW, objective="time", **RUN)
    for after in (0, 1, 2):
        found = _stopped(after)
        assert found.stopped and not whole.stopped
        best = whole.winner.step_ns
        assert best <= found.winner.step_ns and best >= found.winner.step_ns * (1 - found.gap)
        assert found.gap >= whole.gap
        said = verdict({**found.to_dict()})
        assert "stopped early" in said and "(--simulations)" not in said
    others = [each for each in _stopped(0).machines if each.status != "best"]
    assert [each.status for each in others] == ["open"]
    assert "not simulated before the search was stopped" in others[0].reason


def test_a_search_over_machines_that_is_stopped_before_a_simulation_has_no_answer() -> None:
    def says(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        arm.plan("llama-3-8b", PLATFORMS, 16, layout=FEW, progress=says, objective="time", **RUN)
    assert not isinstance(stopped.value, SearchInterrupted)


def test_the_best_of_several_machines_has_neighbours() -> None:
    found = arm.plan("llama-3-8b", PLATFORMS, 16, layout=FEW, sensitivity=True, **RUN)
    alone = arm.plan("llama-3-8b", found.machine.platform, 16, layout=FEW, sensitivity=True, **RUN)
    assert found.plan.neighbours == alone.neighbours != []
    assert all(
        not each.plan or each is found.machine or not each.plan.neighbours
        for each in found.machines
    )


def test_a_space_without_a_layout_names_the_fewest_npus() -> None:
    """A layout fits on the number that the error names, and on no half of it."""
    with pytest.raises(InputError, match="--ranks 128, the fewest"):
        arm.plan("llama-3-405b", "dgx-h100-16n", 8, global_batch=64)
    job = Job.of("llama-3-405b", 8, global_batch=64)
    assert fewest(job, Platform.load("dgx-h100-16n", npus=64)) == 128
    assert fewest(job, Platform.load("dgx-h100-16n", npus=128)) == 256
    with pytest.raises(InputError) as error:
        arm.plan("llama-3-405b", list(PLATFORMS), [8, 16], global_batch=64)
    assert len(error.value.problems) == 4


def test_one_machine_fits_and_another_does_not() -> None:
    """A machine without room is listed with its reason."""
    layout = {**FEW, "tp": (1, 2, 4, 8)}
    found = arm.plan(
        "llama-3-8b", "dgx-h100-16n", [8, 16], layout=layout, objective="memory", **RUN
    )
    assert [each.status for each in found.machines] in (["behind", "best"], ["excluded", "best"])
    tight = arm.plan("llama-3-70b", "dgx-h100-16n", [8, 64], layout=layout, **RUN)
    assert [each.status for each in tight.machines] == ["unfit", "best"]
    assert "no layout fits" in tight.machines[0].reason


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("256", (256,)),
        ("64,256", (64, 256)),
        ("64..256", (64, 128, 256)),
        ("8, 12..40", (8, 12, 24)),
    ],
)
def test_numbers_of_ranks_are_read(text: str, numbers: tuple[int, ...]) -> None:
    """A range doubles from its first number on."""
    assert read_ranks(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "64..", "128..64", "64-128", "1e3", "64;128", "64,"])
def test_wrong_numbers_of_ranks_are_refused(text: str) -> None:
    """Each wrong number is named."""
    with pytest.raises(InputError, match="invalid number"):
        read_ranks(text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["2.5"], "is not a price"),
        (["a="], "is not a price"),
        (["a=free"], "is not a price"),
        (["a=-1"], "is not a price"),
        (["a=1", "a=2"], "is given twice"),
    ],
)
def test_wrong_prices_are_refused(texts: list[str], said: str) -> None:
    """Each wrong price is named."""
    with pytest.raises(InputError, match=said):
        read_prices(texts)
    assert read_prices(["a=2.5", "b=$3"]) == {"a": 2.5, "b": 3.0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "speed"}, "unknown objective: speed"),
        ({"objective": "cost"}, "dgx-a100-16n has no price"),
        ({"tokens": "1T", "days": 30}, "dgx-a100-16n has no price"),
        ({"days": 30}, "says nothing without --tokens"),
        ({"tokens": "lots"}, "invalid number: lots"),
        ({"tokens": "1T", "days": 0, "objective": "time"}, "invalid number: 0"),
        ({"tokens": "1T", "days": 3, "objective": "memory"}, "is not searched"),
        ({"prices": {"dgx-h200": 1.0}}, "is not a platform of this plan"),
        ({"prices": {"dgx-h100-16n": 0.0}}, "invalid price: 0"),
        ({"prices": {"dgx-h100-16n": math.nan}}, "invalid price: nan"),
        ({"simulations": 0}, "invalid number: 0"),
        ({"cost": "volume"}, "is unknown"),
    ],
)
def test_wrong_goals_are_refused(given: dict[str, object], said: str) -> None:
    """Nothing is guessed: a price, an objective, a job."""
    with pytest.raises(InputError) as error:
        arm.plan("llama-3-8b", list(PLATFORMS), [8, 16], **given)
    assert said in str(error.value)


def test_machines_are_named_once() -> None:
    """The same machine twice, a number that no size gives, several for tables."""
    with pytest.raises(InputError, match="is given twice"):
        arm.plan("llama-3-8b", ["dgx-h100-16n", "dgx-h100-16n"], 8)
    with pytest.raises(InputError, match="12"):
        arm.plan("llama-3-8b", list(PLATFORMS), [8, 12])
    with pytest.raises(InputError, match="there is none"):
        arm.plan("llama-3-8b", [], 8)
    with pytest.raises(InputError, match="machines"):
        arm.plan("llama-3-8b", "dgx-h100-16n", list(range(1, 200)))
    with pytest.raises(InputError, match="several are for decoders"):
        arm.plan("dlrm-small", ["dgx-h100", "dgx-a100"], 8)
