"""Choices of layouts: which one we choose, what it costs, ranks, and the files that are read."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT

from armillary.errors import InputError
from armillary_lab.measured.layouts import read as read_layouts
from armillary_lab.measured.published import tried
from armillary_lab.measured.training import failures, trainings
from armillary_lab.measured.tried import SOURCES, Tried, of_layout, of_row, of_training, ours
from armillary_lab.predict import left_out, training_steps
from armillary_lab.predict.plans import Predicted, predict
from armillary_lab.score.choices import choices, summaries
from armillary_lab.score.correlation import spearman
from armillary_lab.score.plans import known, main, read

SHARED = ROOT / "../shared/truth/plan"
DLPERF = (
    "id,case,nodes,gpus,dp,tp,pp,micro_batch,accumulation,global_batch,hidden,heads,layers,"
    "seq_len,vocab,gpu,oneflow_seq_s,oneflow_ms,oneflow_mem_MiB,megatron_seq_s\n"
)
ROWS = (
    "a,x,1,8,8,1,1,2,1,16,1536,16,4,2048,51200,V100-SXM2-16GB,38.2,418.8,12404,33.27\n",
    "b,x,1,8,1,8,1,16,1,16,1536,16,4,2048,51200,V100-SXM2-16GB,24.92,642.1,6264,23.11\n",
)
FUGAKU = (
    "id,model,layers,hidden,heads,seq_len,nodes,dp,tp,pp,micro_batch,global_batch,"
    "activation_checkpointing,freq_GHz,mem_MiB,status,sec_per_iter,tflops_per_node,notes\n"
)
NODE = "f,1.3B,2,2048,32,1024,4,1,4,1,1,8,no,2.0,18870.0,ok,2533.0,0.86,x\n"


def made(
    layout: str, ours_: float | None, fits: str, measured: float | None, job: str = "job"
) -> Predicted:
    """A prediction for a layout of a source."""
    run = trainings()[0]
    tried_ = Tried("s", job, layout, run, measured is not None, measured)
    return Predicted(tried_, ours_, fits, room=fits == "yes")


def test_the_chosen_layout_is_the_fastest_that_fits() -> None:
    (found,) = choices(
        [
            made("near", 1.0, "near", 9.0),
            made("slow", 5.0, "yes", 10.0),
            made("fast", 4.0, "yes", 11.0),
            made("lost", None, "no", None),
        ]
    )
    assert (found.chosen, found.works, found.layouts, found.ran) == ("fast", True, 4, 3)
    assert found.lost == pytest.approx(100 * (11 / 9 - 1))


def test_a_layout_with_room_is_chosen_before_a_faster_one_without() -> None:
    full = replace(made("full", 1.0, "yes", 5.0), room=False)
    (found,) = choices([full, made("roomy", 2.0, "yes", 4.0)])
    assert found.chosen == "roomy"
    (found,) = choices([full, made("near", 0.5, "near", 4.0)])
    assert found.chosen == "full"


def test_a_near_one_is_chosen_where_nothing_else_fits() -> None:
    rows = [made("near", 1.0, "near", None), made("other", 2.0, "near", 5.0)]
    (found,) = choices([*rows, made("no", 0.5, "no", 4.0)])
    assert (found.chosen, found.works, found.lost) == ("near", False, None)
    (none,) = choices([made("a", 1.0, "no", 4.0), made("b", 1.0, "no", 5.0)])
    assert (none.chosen, none.works, none.within(1e9)) == ("", False, False)


def test_repeats_are_one_layout_with_their_median() -> None:
    """The layout that failed once and ran three times counts as one that ran."""
    times = (5.0, 6.0, 100.0, None)
    rows = [made("a", 1.0, "yes", each) for each in times] + [made("b", 2.0, "yes", 3.0)]
    (found,) = choices(rows)
    assert found.layouts == 2
    assert found.lost == pytest.approx(100.0)


def test_jobs_with_one_layout_or_without_a_time_are_no_choice() -> None:
    assert not choices([made("a", 1.0, "yes", 5.0)])
    assert not choices([made("a", 1.0, "yes", None), made("b", 1.0, "yes", None)])


@pytest.mark.parametrize("seed", range(5))
def test_drawn_jobs_agree_with_a_search(seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        made(
            str(at),
            draw.uniform(1, 9),
            draw.choice(["yes", "yes", "near", "no"]),
            draw.choice([None, draw.uniform(1, 9), draw.uniform(1, 9)]),
        )
        for at in range(20)
    ]
    (found,) = choices(rows)
    best = min(each.tried.step_s for each in rows if each.tried.step_s)
    allowed = [each for each in rows if each.fits == "yes"]
    chosen = sorted(allowed, key=lambda each: each.ours or 0)[0].tried
    assert found.chosen == chosen.layout
    assert found.works is chosen.ran
    assert (found.lost is None) is not chosen.ran
    if chosen.step_s:
        assert found.lost == pytest.approx(100 * chosen.step_s / best - 100)


def test_ranks() -> None:
    """The formula for ranks without ties: 1 - 6 sum d^2 / (n (n^2 - 1))."""
    pairs = [(1.0, 10.0), (2.0, 30.0), (3.0, 20.0), (4.0, 40.0)]
    assert spearman(pairs) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert spearman([(1.0, 2.0), (2.0, 1.0)]) is None
    assert spearman([(1.0, 2.0), (1.0, 1.0), (1.0, 3.0)]) is None


def test_summaries_count_jobs() -> None:
    rows = [made(str(at), at + 1.0, "yes", at + 1.0, "right") for at in range(8)]
    rows += [made("x", 1.0, "yes", 1.05, "near"), made("y", 2.0, "yes", 1.0, "near")]
    rows += [made("x", 1.0, "yes", None, "lost"), made("y", 2.0, "yes", 1.0, "lost")]
    every, source = summaries(choices(rows))
    assert (every.name, source.name, every.jobs, every.layouts) == ("all", "s", 3, 12)
    assert every.works == pytest.approx(200 / 3)
    assert every.near == pytest.approx(100 / 3)
    assert every.far == pytest.approx(200 / 3)
    assert (every.ranked, every.above) == (1, 1)
    assert every.correlation == pytest.approx(1.0)


def test_layouts_of_the_laboratory_are_of_jobs() -> None:
    rows = list(ours())
    assert {each.source for each in rows} == {
        "vTrain", "nanotron", "SimuMax", "Megatron-Bridge",
    }  # fmt: skip
    assert sum(not each.ran for each in rows) == len(failures())
    for each in rows[::97]:
        same = of_training(each.run)  # type: ignore[arg-type]
        assert (same.job, same.layout) == (each.job, each.layout)
    few = known(rows, ["SimuMax"])
    assert {each.source for each in few} == {"SimuMax"}


def test_without_its_source_nothing_that_was_fitted_to_it_is_left() -> None:
    """nanotron's hosts take no time for members and messages; its GPUs keep what it states."""
    run = next(each for each in trainings() if each.group == "nanotron_h100" and each.nodes > 32)
    fitted = training_steps.machine(run)[1]
    preset, stated = training_steps.stated_machine(run)
    found = left_out.settings(run, preset, stated)
    assert "npu.launch.per_member" in fitted
    assert "npu.launch.per_member" not in found
    assert found["topology"] == fitted["topology"]
    assert found["npu.launch.kernel"] == left_out.LAUNCH["nanotron"] != fitted["npu.launch.kernel"]
    bridge = next(each for each in trainings() if each.group == "nemo_megatron_bridge")
    preset, stated = training_steps.stated_machine(bridge)
    assert left_out.settings(bridge, preset, stated)["npu.compute.kernel_per_expert"] is True


def test_memory_of_recipes_counts_as_fitting() -> None:
    """Our count puts one of two layouts of GPT-OSS on B200 near the limit. It is the faster one,
    with smaller groups of experts."""
    rows = known(list(ours()), ["Megatron-Bridge"])
    job = "gpt-oss-120b, 64 B200, batch 1280 of 4096, bf16"
    some = {each.layout: each for each in rows if each.job == job}
    found = [predict(each) for each in some.values()]
    made_ = [each for each in found if isinstance(each, Predicted)]
    assert [(each.fits, each.room) for each in made_] == [("yes", True)] * 2
    (choice,) = choices(made_)
    assert "ep 8" in choice.chosen
    assert choice.lost == 0


def test_rates_without_a_source_multiply_the_presets() -> None:
    from armillary.platform import Platform

    platform = Platform.load("dgx-a100")
    before = left_out.efficiencies(platform)
    changes = left_out.rates(platform, {"gemm": 0.9, "streams": 1.1})
    after = left_out.efficiencies(Platform.load("dgx-a100", changes))
    assert after["gemm"] == pytest.approx(0.9 * before["gemm"], rel=1e-4)
    assert after["streams"] == pytest.approx(1.1 * before["streams"], rel=1e-4)
    assert after["attention"] == pytest.approx(before["attention"], rel=1e-4)


def test_every_source_with_runs_in_a_fit_has_rates_without_it() -> None:
    for run in trainings()[::41]:
        if run.group in SOURCES and run.gpu in ("A100", "H100"):
            source = SOURCES[run.group]
            assert set(left_out.ratios(source, run.gpu)) == set(left_out.PARAMETERS)
    assert left_out.ratios("vTrain", "MI300X") == {}


def test_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(DLPERF + "".join(ROWS))
    (tmp_path / "f.csv").write_text(FUGAKU + NODE + NODE.replace("ok,2533.0", "oom,"))
    runs, left = tried.read(str(tmp_path / "d.csv"))
    assert not left
    assert [each.framework for each in runs] == ["OneFlow", "Megatron-LM"] * 2
    assert runs[1].step_s == pytest.approx(16 / 33.27)
    assert len({of_row(each).job for each in runs}) == 2
    ran, lost = tried.read(str(tmp_path / "f.csv"))[0]
    assert (ran.ran, lost.ran, ran.gpus, ran.recompute) == (True, False, 4, "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DLPERF + ROWS[0].replace("1,8,8,1,1,", "1,8,4,1,1,"), "does not use all GPUs"),
        (DLPERF + ROWS[0].replace(",1,16,1536", ",2,16,1536"), "micro-batches add up to"),
        (FUGAKU + NODE.replace(",1024,4,", ",,4,"), "seq_len is not stated"),
        (FUGAKU + NODE.replace(",2.0,", ",,"), "freq_GHz is not stated"),
        (FUGAKU + NODE.replace(",no,", ",,"), "activation_checkpointing is not stated"),
        (FUGAKU + NODE.replace(",ok,", ",lost,"), "status 'lost'"),
        (FUGAKU + NODE.replace(",4,1,4,", ",8,1,4,"), "does not use all GPUs"),
    ],
)
def test_rows_that_say_too_little_are_left_out(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    runs, (left,) = tried.read(str(tmp_path / "t.csv"))
    assert not runs
    assert said in left.reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        DLPERF,
        DLPERF + ROWS[0].replace(",8,8,", ",-8,8,"),
        DLPERF + ROWS[0].replace(",8,8,", ",8.5,8,"),
        DLPERF + ROWS[0].replace("38.2", "nan"),
        DLPERF + ROWS[0].replace("38.2", "fast"),
        DLPERF + ROWS[0].replace("38.2", "1e300"),
        DLPERF + ROWS[0].replace("\n", ",1\n"),
        FUGAKU + NODE.replace("2533.0", "-1"),
        FUGAKU + NODE.replace(",24,", ",0,").replace(",2,2048", ",0,2048"),
    ],
    ids=range(11),
)
def test_other_files_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError):
        read(str(path))
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_command_chooses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.csv"
    path.write_text(DLPERF + "".join(ROWS))
    assert main([str(path)]) == 0
    assert "| DLPerf | 2 | 4 | 100 | 100 | 100 | 0 |" in capsys.readouterr().out
    assert main([str(path), "--json", "--only", "DLPerf"]) == 0
    report = json.loads(capsys.readouterr().out)["plans"]
    assert report["predicted"] == 4
    assert {each["chosen"][:4] for each in report["choices"]} == {"tp 1"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the tables are not at hand (../shared/truth)")
def test_published_tables_are_read_whole() -> None:
    runs, left = tried.read(str(SHARED / "dlperf_gpt_v100.csv"))
    assert (len(runs), len(left)) == (36, 0)
    runs, left = tried.read(str(SHARED / "fugaku_a64fx.csv"))
    assert (len(runs), len(left)) == (11, 11)
    layouts = [of_layout(each) for each in read_layouts(SHARED / "aleph_alpha_two_groups.csv")]
    assert len({each.job for each in layouts}) == 6
