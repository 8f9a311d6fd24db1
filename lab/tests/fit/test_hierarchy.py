"""Fits of parameters in levels: what made the measurements is found again, what they do not require
stays zero, and bounds of physics hold.

Measurements are made by the library's model from known parameters, so that the truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from armillary.calibrate import Case, MeasuredTable
from armillary.platform import Platform
from armillary_lab.fit.hierarchy import HOST, Levels, Member, Observed, Prior
from armillary_lab.measured.sweeps import band

SIZES = [1024 * 4**power for power in range(11)]
PRIORS = {
    "call_overhead": Prior(10.0, 0.7, 1.0, 400.0),
    "node.efficiency": Prior(0.8, 0.1, 0.4, 0.98),
}
SPREADS = {"all": 1.5, "machine": 0.7, HOST: 1.0}


def made(
    name: str, truth: dict[str, float], *, host: bool = False, sizes: Sequence[int] = SIZES
) -> Observed:
    """A sweep that the model itself made, with these parameters."""
    platform = Platform.load("dgx-h100", {"npus": 8, "library.nvls": None})
    empty = Case(MeasuredTable(name, "all_reduce", 8, tuple((s, 1.0) for s in sizes)), platform)
    times = empty.times({f"library.{key}": value for key, value in truth.items()})
    points = tuple(zip(sizes, times, strict=True))
    own: tuple[Member, ...] = ((HOST if host else "machine", name),)
    chains = dict.fromkeys(PRIORS, (("all", "all"), *own))
    bands = tuple(band(size) for size in sizes)
    case = Case(MeasuredTable(name, "all_reduce", 8, points), platform)
    return Observed(case, f"source of {name}", name, chains, bands)


def off(levels: Levels, observed: Observed) -> float:
    """Mean error of a prediction, percent."""
    logs = levels.logs(observed)
    return 100 * math.expm1(sum(map(abs, logs)) / len(logs))


def test_what_all_machines_share_needs_no_departure_of_its_own() -> None:
    truth = {"call_overhead": 20.0, "node.efficiency": 0.7}
    sweeps = [made(f"m{at}", truth) for at in range(4)]
    levels = Levels(sweeps, PRIORS, SPREADS).search().divide()
    assert {level for level, _, _ in levels.departures} == {"all"}
    assert levels.value("call_overhead", sweeps[0].chains["call_overhead"]) == pytest.approx(
        20, rel=0.05
    )
    assert levels.value("node.efficiency", sweeps[0].chains["node.efficiency"]) == pytest.approx(
        0.7, rel=0.05
    )
    # a machine that was not measured has the values of all
    assert levels.value("call_overhead", (("all", "all"), ("machine", "new"))) == pytest.approx(
        20, rel=0.05
    )
    # times that change by 2 % without the departure from 10 to 20 us
    depending = sum(round(10 / us, 3) >= 0.02 for _, us in sweeps[0].case.table.points)
    assert levels.measurements(("all", "all", "call_overhead")) == 4 * depending


def test_one_machine_departs_where_its_measurements_insist() -> None:
    sweeps = [made(f"m{at}", {"call_overhead": 10.0}) for at in range(4)]
    slow = made("slow", {"call_overhead": 40.0})
    levels = Levels([*sweeps, slow], PRIORS, SPREADS).search().divide()
    assert ("machine", "slow", "call_overhead") in levels.departures
    assert not any(member.startswith("m") for _, member, _ in levels.departures)
    assert off(levels, slow) < 5
    assert off(levels, sweeps[0]) < 3


def test_a_small_difference_is_no_departure() -> None:
    sweeps = [made(f"m{at}", {"call_overhead": 10.0}) for at in range(4)]
    near = made("near", {"call_overhead": 10.2})
    levels = Levels([*sweeps, near], PRIORS, SPREADS).search().divide()
    assert ("machine", "near", "call_overhead") not in levels.departures


def test_a_host_takes_part_in_the_fit_and_not_in_predictions() -> None:
    sweeps = [made(f"m{at}", {"call_overhead": 10.0}) for at in range(4)]
    slow = made("slow", {"call_overhead": 40.0}, host=True)
    levels = Levels([*sweeps, slow], PRIORS, SPREADS).search().divide()
    assert (HOST, "slow", "call_overhead") in levels.departures
    chain = slow.chains["call_overhead"]
    assert levels.value("call_overhead", chain, hosts=True) == pytest.approx(40, rel=0.1)
    assert levels.value("call_overhead", chain) == pytest.approx(10, rel=0.1)


def test_values_stay_within_bounds_of_physics() -> None:
    # faster than the links: an efficiency of 1.6 would be needed
    fast = made("fast", {"node.efficiency": 0.98})
    times = [(size, us / 1.6) for size, us in fast.case.table.points]
    table = MeasuredTable("fast", "all_reduce", 8, tuple(times))
    sweep = Observed(
        Case(table, fast.case.platform), fast.source, fast.machine, fast.chains, fast.bands
    )
    levels = Levels([sweep], PRIORS, SPREADS).search().divide()
    found = levels.values(sweep)
    assert found["library.node.efficiency"] <= 0.98
    assert 1.0 <= found["library.call_overhead"] <= 400.0


def test_a_shared_departure_moves_all_of_its_parameters_by_one_factor() -> None:
    steps = {f"node.step_latency[{at}]": us for at, us in enumerate((0.28, 1.5, 5.0))}
    priors = {key: Prior(us, 0.5, 0.1, 12.0) for key, us in steps.items()} | PRIORS
    chain: tuple[Member, ...] = (("all", "all"), ("machine", "slow"))
    plain = made("slow", {})
    chains = dict.fromkeys(priors, chain)
    slow = Observed(plain.case, plain.source, plain.machine, chains, plain.bands)
    levels = Levels([slow], priors, SPREADS, {"steps": tuple(steps)})
    levels.begin({("all", "all", "steps"): math.log(3), ("machine", "slow", "steps"): math.log(2)})
    found = [levels.value(key, chain) for key in steps]
    # 6 times as long, the last one at its bound
    assert found == pytest.approx([6 * 0.28, 6 * 1.5, 12.0])
    assert levels.value("call_overhead", chain) == pytest.approx(10.0)


def test_a_source_that_is_left_out_does_not_vouch_for_itself() -> None:
    sweeps = [made(f"m{at}", {"call_overhead": 10.0}) for at in range(4)]
    slow = made("slow", {"call_overhead": 40.0})
    levels = Levels([*sweeps, slow], PRIORS, SPREADS).search().divide()
    variable = ("machine", "slow", "call_overhead")
    assert levels.say(variable, slow.source) == 1.0
    assert levels.say(("all", "all", "call_overhead"), slow.source) == pytest.approx(0.2)
    moving = levels.touched(slow.source, 0.05)
    assert variable in moving
    begun = {
        each: by for each, by in levels.departures.items() if levels.say(each, slow.source) < 1
    }
    rest = Levels(sweeps, PRIORS, SPREADS).begin(begun).search(near=True, moving=moving).divide()
    assert variable not in rest.departures
    assert off(rest, slow) > 50


def test_a_source_has_a_say_in_what_its_times_depend_on() -> None:
    """All sweeps have a rate, but those of small messages alone do not tell it."""
    truth = {"call_overhead": 10.0, "node.efficiency": 0.5}
    small = [made(f"small{at}", truth, sizes=SIZES[:3]) for at in range(4)]
    large = made("large", truth, sizes=SIZES[-3:])
    levels = Levels([*small, large], PRIORS, SPREADS)
    rate = ("all", "all", "node.efficiency")
    assert levels.say(rate, large.source) == pytest.approx(0.2)
    levels.begin({rate: math.log(0.5 / 0.8)})
    assert levels.say(rate, large.source) == 1.0
    assert levels.say(rate, small[0].source) == 0.0


def test_the_search_ends_where_it_does_from_elsewhere() -> None:
    """Sums of absolute values have kinks, where moves of single departures end: here two parameters
    make up for one another in the middle of the sizes. Wherever the search begins, it finds what
    made the times."""
    truths = [{"call_overhead": 10.0 * by, "node.efficiency": 0.75} for by in (1, 1.3, 2.6, 4)]
    sweeps = [made(f"m{at}", truth) for at, truth in enumerate(truths)]
    found = Levels(sweeps, PRIORS, SPREADS).search()
    assert all(off(found, each) < 3 for each in sweeps)
    far = {("all", "all", "call_overhead"): 1.5, ("machine", "m0", "node.efficiency"): -0.4}
    for begin in (far, found.shaken(0), found.shaken(1)):
        other = Levels(sweeps, PRIORS, SPREADS).begin(begin).search()
        assert other.least == pytest.approx(found.least, rel=0.02)
        assert other.least <= Levels(sweeps, PRIORS, SPREADS).begin(begin).least


def test_a_departure_that_one_member_bears_out_is_divided() -> None:
    """All-reduces of machine a depend on the parameter, and b has none: the level and the machine
    share the departure in proportion to their prior densities."""
    steep = made("a", {"call_overhead": 40.0})
    levels = Levels([steep], PRIORS, {"all": 1.0, "machine": 0.7}).search().divide()
    above = levels.departures["all", "all", "call_overhead"]
    own = levels.departures["machine", "a", "call_overhead"]
    spread, near, far = 0.7, 1.0, 0.7
    density = [math.exp(-(above + own) / (spread * by)) / by for by in (near, far)]
    assert above / (above + own) == pytest.approx(density[0] / sum(density))
    assert off(levels, steep) < 5
    # The part is not counted as a number of its own.
    assert levels.parts["machine", "a", "call_overhead"] == ("all", "all", "call_overhead")


def test_a_division_does_not_depend_on_the_level_that_the_search_chose() -> None:
    """The level and its only member fit alike, so a search may end with either."""
    steep, spreads = made("a", {"call_overhead": 40.0}), {"all": 1.0, "machine": 0.7}
    above, own = ((*member, "call_overhead") for member in (("all", "all"), ("machine", "a")))
    first, *others = (
        Levels([steep], PRIORS, spreads).begin(begin).divide().departures
        for begin in ({above: math.log(4)}, {own: math.log(4)}, {above: 1.0, own: 0.386294})
    )
    assert set(first) == {above, own}
    for found in others:
        assert found == pytest.approx(first, rel=1e-5)


def test_a_departure_that_would_change_others_is_not_divided() -> None:
    """64 MiB on b hardly depend on a fifth of a call's 10 us. They would depend on the 30 us by
    which calls on a take longer."""
    steep = made("a", {"call_overhead": 40.0})
    large = made("b", {"call_overhead": 10.0}, sizes=[2**26])
    own = ("machine", "a", "call_overhead")
    levels = Levels([steep, large], PRIORS, SPREADS).begin({own: math.log(4)})
    assert set(levels.constraining(("all", "all", "call_overhead"))) == {0}
    assert levels.divide().departures == {own: math.log(4)}


def test_only_points_that_depend_on_a_parameter_constrain_it() -> None:
    """A call's start takes 40 us. Of 1 GiB that is less than 1 %: the time hardly depends on it."""
    sweep = made("a", {"call_overhead": 40.0})
    levels = Levels([sweep], PRIORS, SPREADS).search().divide()
    variable = ("all", "all", "call_overhead")
    [(_, count)] = levels.constraining(variable).items()
    assert 0 < count < len(SIZES)
    assert levels.measurements(variable) == count
    assert levels.measurements(("all", "all", "node.efficiency")) < len(SIZES)


def test_a_parameter_may_have_the_departures_of_another_and_more() -> None:
    """Rings over two hosts reach 0.75 of what those within a host reach. Both are slower than the
    centre by one departure, which within a host is known from b alone."""
    settings = {"npus": 8, "library.nvls": None}
    hosts = "{ranks: 4, efficiency: 0.8, step_latency: [1 us, 1 us, 1 us]}"
    rack = Platform.load("dgx-h100", {**settings, "library.node.hosts": hosts})
    table = MeasuredTable("a", "all_reduce", 8, ((2**30, 1.0), (2**32, 1.0)))
    [*times] = Case(table, rack).times({"library.node.hosts.efficiency": 0.45})
    case = Case(replace(table, points=tuple(zip((2**30, 2**32), times, strict=True))), rack)
    key = "node.hosts.efficiency"
    both = Observed(case, "source", "a", {key: (("all", "all"), ("kind", "rack"))}, (2, 2))
    one = made("b", {"node.efficiency": 0.6}, sizes=[2**30, 2**32])
    levels = Levels(
        [both, one],
        PRIORS | {key: PRIORS["node.efficiency"]},
        SPREADS | {"kind": 1.0},
        like={key: "node.efficiency"},
    ).search()
    assert set(levels.constraining(("all", "all", "node.efficiency"))) == {0, 1}
    assert levels.value(key, both.chains[key]) == pytest.approx(0.45, rel=0.05)
    assert levels.value(key, (("all", "all"),)) == pytest.approx(0.6, rel=0.05)


def test_what_is_stated_is_not_fitted_and_begins_a_chain() -> None:
    truth = {"call_overhead": 40.0}
    sweeps = [made(f"m{at}", truth) for at in range(3)]
    stated = {("stated", "maker", "call_overhead"): math.log(40 / 10)}
    chain = (("stated", "maker"), ("machine", "m0"))
    known = [
        Observed(each.case, each.source, each.machine, {"call_overhead": chain}, each.bands)
        for each in sweeps
    ]
    levels = Levels(known, PRIORS, SPREADS, given=stated).search().divide()
    assert not levels.departures
    assert levels.value("call_overhead", chain) == pytest.approx(40)
    # what is stated wrongly is corrected below it
    wrong = {("stated", "maker", "call_overhead"): math.log(120 / 10)}
    levels = Levels(known, PRIORS, SPREADS, given=wrong).search().divide()
    assert set(levels.departures) == {("machine", "m0", "call_overhead")}
    assert levels.value("call_overhead", chain) == pytest.approx(40, rel=0.05)
