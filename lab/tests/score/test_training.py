"""The measured training runs: complete, consistent, and of the models their sources printed."""

from __future__ import annotations

import pytest

from armillary.model.decoder_reader import decoder
from armillary.model.weights import parameters
from armillary_lab.measured.training import Training, failures, sources, trainings

RUNS = trainings()

PRINTED = {
    # Parameters beside the measurements: mosaicml/llm-foundry scripts/train/benchmarking/README.md,
    # at these lengths.
    ("mpt-125m", 2048): 125311488,
    ("mpt-1b", 2048): 1315950592,
    ("mpt-3b", 512): 2647905280,
    ("mpt-7b", 8192): 6684024832,
    ("mpt-13b", 2048): 12853954560,
    ("mpt-30b", 2048): 29975214080,
    ("mpt-70b", 2048): 64862437376,
}


def test_names_tell_runs_apart() -> None:
    names = [run.name for run in RUNS]
    assert len(set(names)) == len(names) == 2850
    assert not set(names) & {run.name for run in failures()}


@pytest.mark.parametrize("runs", [RUNS, failures()], ids=["measured", "failed"])
def test_degrees_multiply_to_the_gpus(runs: tuple[Training, ...]) -> None:
    for run in runs:
        assert run.tp * run.pp * run.dp * run.cp == run.gpus, run.name
        spread = run.tp * run.cp if run.extra.get("etp") == "1" else 1
        assert run.dp * spread % run.ep == 0, run.name


def test_every_group_has_a_source_and_every_model_its_fields() -> None:
    assert {run.group for run in RUNS} == set(sources())
    assert all(parameters(decoder(run.model)) > 10**8 for run in (*RUNS, *failures()))


def test_models_have_the_parameters_that_their_source_printed() -> None:
    seen = {(run.model.name, run.seq): parameters(decoder(run.model)) for run in RUNS}
    for key, printed in PRINTED.items():
        assert seen[key] == printed, key


def test_runs_of_one_name_are_read_in_their_units() -> None:
    run = next(run for run in RUNS if run.name == "nanotron_8B_n64_dp4_pp2_tp8_mbs8_ga8_z1")
    assert (run.iter_time_s, run.memory_gib, run.micro_batch, run.global_batch) == (
        3.4077,
        46.5,
        8,
        256,
    )
    assert run.framework.options(run.options)["fp32_gradients"]
    assert run.sp
