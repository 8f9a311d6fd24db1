"""Collectives on what fits have not seen: nothing that is tried was fitted, and what is predicted
is what is asked for."""

from __future__ import annotations

import dataclasses

import pytest

from armillary.calibrate.fit import LONGEST_STEPS
from armillary_lab.measured.sweeps import MeasuredSweep, band, sweeps
from armillary_lab.score import unseen_collectives, without_a_model

NAMED = {sweep.name: sweep for sweep in sweeps()}
SOPHIA = "alcf_sophia_n2g8_all_reduce_env2_241015112115"


def spoilt(sweep: MeasuredSweep, kept: int) -> MeasuredSweep:
    """The sweep with every other time a hundred times what was measured, from the one after `kept`
    on."""
    points = (
        (size, us if at % 2 == kept else 100 * us) for at, (size, us) in enumerate(sweep.points)
    )
    return dataclasses.replace(sweep, points=tuple(points))


@pytest.mark.parametrize("kept", [0, 1])
def test_half_of_a_sweep_is_not_seen(kept: int) -> None:
    """What a fit on one half predicts doesn't change with the other half."""
    sweep = NAMED[SOPHIA]
    times = [
        unseen_collectives._case(each, each.points[1 - kept :: 2]).times(
            unseen_collectives._learn(
                [unseen_collectives._case(each, each.points[kept::2])], unseen_collectives.ALL
            ).values
        )
        for each in (sweep, spoilt(sweep, kept))
    ]
    assert times[0] == times[1]


def test_other_sizes_of_a_quiet_machine_are_within_the_goals() -> None:
    errors = list(unseen_collectives._halves(NAMED["h100x8_azure_allreduce_busbw"]))
    assert {error.band for error in errors} == {0, 1, 2}
    assert all(
        error.percent < goal for error in errors for goal in [unseen_collectives.AFTER[error.band]]
    )


def test_fits_begin_where_no_preset_is() -> None:
    """Of a platform whose parameters are told by a sweep, none is left at the preset's value."""
    sweep = NAMED[SOPHIA]
    learnt = unseen_collectives._learn([unseen_collectives._case(sweep)], unseen_collectives.ALL)
    preset = {p.key: p.given for p in learnt.parameters}
    told = [
        p for p in learnt.parameters if p.key.removeprefix("library.") in unseen_collectives.BEGIN
    ]
    assert len(told) > 20
    same = [
        p.key
        for p in told
        if p.fitted == preset[p.key] != unseen_collectives.BEGIN[p.key.removeprefix("library.")]
    ]
    assert same == []


def test_a_slow_network_makes_no_slow_steps_within_a_node() -> None:
    """Kestrel's all-reduces leave open whether steps of rings are slow within a node or between
    nodes. Over NVLink they can't be, so its large all-gathers are predicted within a fifth."""
    learnt = unseen_collectives._learn(
        [unseen_collectives._case(NAMED["h100x64_kestrel_slingshot_allreduce"])],
        ("network", "node", "call_overhead"),
    )
    assert learnt.values["library.node.step_latency[2]"] <= LONGEST_STEPS[2]
    tried = unseen_collectives._try(NAMED["h100x64_kestrel_slingshot_allgather"], learnt)
    large = next(error for error in tried if error.band == 2)
    assert large.percent < 20


def test_left_out_sweeps_are_tried_in_bands_that_the_others_have() -> None:
    machine = [
        sweep
        for sweep in sweeps()
        if sweep.preset == "polaris-a100-540n" and sweep.collective == "all_reduce"
    ]
    errors = list(unseen_collectives._scaled(machine, 8))
    assert errors and all(unseen_collectives._nodes(error.sweep) > 8 for error in errors)
    assert {band(size) for size, _ in errors[0].sweep.points} >= {
        error.band for error in errors[:1]
    }


def test_hardware_is_a_generation_within_a_node_and_a_preset_between_nodes() -> None:
    assert unseen_collectives._hardware(NAMED["h200x8_azure_allreduce_busbw"])[0] == "H100"
    assert unseen_collectives._hardware(NAMED["gb200x4_oci_all_reduce_large"])[0] == "B200"
    assert (
        unseen_collectives._hardware(NAMED["gb200x72_coreweave_allreduce_1rack"])[0]
        == "B200, hosts"
    )
    preset, rooms = unseen_collectives._hardware(NAMED[SOPHIA])
    assert preset == "dgx-a100-16n" and "network" in rooms and "node" not in rooms


def test_lines_through_neighbours() -> None:
    """Powers of a size lie on a line; beyond it goes on, and never down; a size measured twice
    counts once."""
    squares = [(size, float(size) ** 2) for size in (2, 8, 32)]
    for size in (1, 2, 4, 9, 32, 100):
        assert without_a_model.line(squares, size) == pytest.approx(size**2)
    assert without_a_model.line([(2, 8.0), (8, 4.0)], 4) == pytest.approx(32**0.5)
    assert without_a_model.line([(2, 8.0), (8, 4.0)], 16) == pytest.approx(4.0)
    assert without_a_model.line([(2, 8.0), (8, 4.0)], 1) == pytest.approx(8.0)
    assert without_a_model.line([(2, 1.0), (2, 4.0), (8, 2.0)], 4) == pytest.approx(2.0)


def test_lines_know_nothing_of_the_size_they_are_asked_for() -> None:
    sweep = NAMED[SOPHIA]
    errors = list(without_a_model.neighbours(sweep))
    assert {error.band for error in errors} == {0, 1, 2} and all(
        0 < error.percent < 40 for error in errors
    )
    flat = dataclasses.replace(sweep, points=tuple((size, 7.0) for size, _ in sweep.points))
    assert [error.log for error in without_a_model.neighbours(flat)] == pytest.approx([0.0] * 6)


def test_what_was_measured_twice_is_of_one_machine() -> None:
    errors = without_a_model.repeated(sweeps())
    assert {error.sweep.source.split("@")[0] for error in errors} == {"argonne-lcf/alcf-nccl-tests"}
    twin = dataclasses.replace(
        NAMED[SOPHIA], points=tuple((size, 1.1 * us) for size, us in NAMED[SOPHIA].points)
    )
    assert [
        error.percent for error in without_a_model.repeated([NAMED[SOPHIA], twin])
    ] == pytest.approx([10.0] * 3)
