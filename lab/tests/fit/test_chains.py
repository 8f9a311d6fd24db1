"""The levels of machines: what a machine shares with others."""

from __future__ import annotations

import math

import pytest

from armillary_lab.fit.libraries import PRIORS, Machine, observed
from armillary_lab.measured.published.machines import KERNEL_US, SINGLE_US
from armillary_lab.measured.sweeps import not_predicted, sweeps
from armillary_lab.score import without_a_model

POLARIS = Machine("A100", "polaris-a100-540n", True)
PERLMUTTER = Machine("A100", "perlmutter-1536n", True)
KESTREL = Machine("H100", "kestrel-132n", True)
SOPHIA = Machine("A100", "dgx-a100-16n", True)


def shared(one: Machine, other: Machine, key: str) -> set[str]:
    """The levels that two machines have in common for a parameter."""
    return {level for level, _ in set(one.chain(key)) & set(other.chain(key))}


def test_a_path_to_the_card_belongs_to_a_network_and_a_generation() -> None:
    key = "network.efficiency"
    assert shared(POLARIS, PERLMUTTER, key) == {"all", "network", "path"}
    assert shared(POLARIS, KESTREL, key) == {"all", "network"}
    assert shared(POLARIS, SOPHIA, key) == {"all"}
    assert shared(POLARIS, PERLMUTTER, "network.all_to_all_efficiency") >= {"path"}


def test_trees_between_two_nodes_belong_to_a_generation() -> None:
    key = "network.two_node_tree_efficiency"
    assert shared(POLARIS, SOPHIA, key) == {"stated", "all", "generation"}
    assert shared(POLARIS, KESTREL, key) == {"all"}


def test_no_kind_of_network_informs_the_interval_between_messages_of_another() -> None:
    key = "network.step_interval"
    assert shared(POLARIS, KESTREL, key) == {"network"}
    assert shared(POLARIS, SOPHIA, key) == set()


def test_what_is_stated_of_a_sweep_is_not_fitted() -> None:
    """How its calls are started."""
    calls = {"library.call_overhead": (f"{KERNEL_US} us", f"{SINGLE_US} us")}
    for sweep in sweeps():
        said = dict(sweep.settings)
        chains = observed(sweep).chains
        for key, values in calls.items():
            assert (key.removeprefix("library.") in chains) is (key not in said)
            assert said.get(key, values[0]) in values


def test_sweeps_that_are_not_predicted_take_no_part() -> None:
    assert not_predicted().keys().isdisjoint(sweep.name for sweep in sweeps())
    assert all(len(why.split()) > 4 for why in not_predicted().values())


@pytest.mark.parametrize("key", [key for key in PRIORS if key.startswith("network")])
def test_chains_end_at_the_machine(key: str) -> None:
    assert POLARIS.chain(key)[-1] == ("setup", "polaris-a100-540n")
    assert POLARIS.chain(key)[-2] == ("cluster", "polaris-a100-540n")


def test_other_setups_predict_a_sweep_without_a_model() -> None:
    """A small all-gather of Polaris, from the mean of logarithms of what other settings took."""
    group = [
        each
        for each in sweeps()
        if each.collective == "all_gather" and each.preset.startswith("polaris") and each.nodes == 2
    ]
    found = {
        error.sweep.name: error for error in without_a_model.other_setups(group) if error.band == 0
    }
    assert len(found) == len(group)
    sweep = group[0]
    others = [dict(each.points) for each in group if each.preset != sweep.preset]
    logs = [
        abs(sum(math.log(each[size]) for each in others) / len(others) - math.log(us))
        for size, us in sweep.points
        if size <= 2**16
    ]
    assert found[sweep.name].log == pytest.approx(sum(logs) / len(logs))
