"""Layouts that ran and that ran out of memory: reading them, and what we say of them.

The published table is not part of the repository (CC BY-NC-SA 4.0). Without it the tests of the
score are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from conftest import ROOT

from armillary.errors import InputError
from armillary.platform import Platform
from armillary_lab.measured.layouts import read
from armillary_lab.predict.layouts import FRAMEWORK, PRESET, LayoutPrediction, predict
from armillary_lab.score.layouts import answers, main

TABLE = ROOT / "../shared/truth/plan/aleph_alpha_two_groups.csv"
HEAD = (
    "id,group,model,seq_len,gpus,activation_checkpointing,kernel,micro_batch,tp,pp,"
    "sequence_parallel,status,step_time_s\n"
)
ROW = "a,g,llama-13b,2048,64,disabled,flash_attention2 + RMS kernel,1,2,2,False,ok,20.5\n"
LOST = "b,g,llama-65b,8192,64,every_layer,fused,4,2,1,True,oom,\n"
needs_table = pytest.mark.skipif(
    not TABLE.is_file(), reason="the published layouts are not at hand (../shared/truth)"
)


def predicted(framework: str | None, paths: Iterable[Path] = (TABLE,)) -> list[LayoutPrediction]:
    platform = Platform.load(PRESET)
    return [predict(run, platform, framework) for path in paths for run in read(path)]


def counts(found: Sequence[LayoutPrediction]) -> tuple[int, ...]:
    """Layouts that ran, of them `no`; that ran out of memory, of them `yes`; and near ones."""
    all_of = answers("all", found)
    near = all_of.ran_near + all_of.lost_near
    return all_of.ran, all_of.ran_no, all_of.lost, all_of.lost_yes, near


def test_a_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + ROW + LOST + ROW.replace("ok", "error"))
    ran, lost = read(path)
    assert (ran.ran, ran.fused_norm, ran.flash, ran.recompute, ran.step_s) == (
        True,
        True,
        True,
        "none",
        20.5,
    )
    assert (lost.ran, lost.fused_norm, lost.flash, lost.recompute, lost.sp) == (
        False,
        False,
        False,
        "full",
        True,
    )
    assert lost.model.fields["hidden"] == 8192


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        (HEAD + ROW.replace(",ok,", ",fine,"), "line 2: status 'fine'"),
        (HEAD + ROW.replace("llama-13b", "llama-14b"), "line 2: can't be read: '14b'"),
        (HEAD + ROW.replace(",64,", ",0,"), "line 2: can't be read: a count of 0"),
    ],
)
def test_wrong_tables_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert said in str(caught.value)
    assert main([str(path)]) == 2


def test_rows_that_no_options_describe_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + ROW + ROW.replace("disabled", "every_second_layer"))
    assert main([str(path)]) == 0
    said = capsys.readouterr().out
    assert "| all | 1 | 0 |" in said
    assert "can't be laid out: 1 (unknown recompute 'every_second_layer')" in said


@needs_table
def test_layouts_that_ran_out_of_memory_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of docs/models/memory.md. The targets are 95, 1 and 8 %."""
    every = predicted(FRAMEWORK)
    assert counts(every) == (105, 1, 110, 1, 15)
    assert counts([each for each in every if each.run.gpus == 256]) == (78, 0, 88, 1, 11)
    assert counts([each for each in every if each.run.gpus == 64]) == (27, 1, 22, 0, 4)
    found = answers("all", every)
    assert found.caught >= 95
    assert found.refused <= 1
    assert found.near <= 8
    assert main([str(TABLE)]) == 0
    assert capsys.readouterr().out.count("wrong: ") == 2


@needs_table
def test_without_a_framework_more_is_unknown() -> None:
    assert counts(predicted(None)) == (105, 1, 110, 12, 15)
