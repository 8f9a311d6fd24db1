"""Files of users in words of today."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Armillary

import armillary as arm
from armillary.migrate import migrate
from armillary.migrate.run import require_free

PLATFORM = """\
# My platform, by hand.
topology: Ring(4)
links: [{bandwidth: 100 GB/s, latency: 1 us}]   # fast
npu:
  peak: 100 TFLOPS
  compute: {model: roofline, scale: 0.5, "beside": 0.75}  # half
"""
SWEEP = """\
workload:
  model: llama-3-8b   # ours
  options: {tp: 4, kernels: eager, distributed_optimizer: true}

platform: {file: dgx-h100, npus: 4}
parameters:
  workload.merged: [true, false]   # as torchtitan
  overlap: {set: workload.overlap_tp, values: [true, false]}
constraints: [tp == 4 and merged]
"""
DESIGN = """\
npus: 8
topologies: ["Ring(8)"]
npu: {peak: 400 TFLOPS}
bandwidth: 300 GB/s
workloads:
- {model: gpt3-175b, tp: 8, 'overlap_tp': true, near: true}  # one
"""


def write(folder: Path, text: str, name: str = "f.yml") -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def test_a_platform_is_the_same_one(tmp_path: Path) -> None:
    """Comments, order and quotes stay. `comm_overlap_slowdown` is what `beside` left over."""
    found = migrate(write(tmp_path, PLATFORM))
    assert found.kind == "platform"
    assert found.after == PLATFORM.replace("scale: 0.5", "speedup: 0.5").replace(
        '"beside": 0.75', '"comm_overlap_slowdown": 0.25'
    )
    before, after = (arm.Platform.parse(each) for each in (found.before, found.after))
    assert before.describe() == after.describe()
    assert before.warnings and not after.warnings


def test_a_sweep(tmp_path: Path) -> None:
    """Options of the model where they are fixed, where they vary, and behind `set`."""
    found = migrate(write(tmp_path, SWEEP))
    assert yaml.safe_load(found.after) == {
        "workload": {
            "model": "llama-3-8b",
            "options": {"tp": 4, "framework_set.kernels": "eager", "zero": 1},
        },
        "platform": {"file": "dgx-h100", "npus": 4},
        "parameters": {
            "workload.framework_set.merged": [True, False],
            "overlap": {"set": "workload.framework_set.overlap_tp", "values": [True, False]},
        },
        "constraints": ["tp == 4 and merged"],
    }
    assert found.after.count("#") == 2
    assert not migrate(write(tmp_path, found.after)).changes


def test_a_design(tmp_path: Path) -> None:
    found = migrate(write(tmp_path, DESIGN))
    assert found.after == DESIGN.replace("'overlap_tp'", "'framework_set.overlap_tp'")


SETTINGS = """\
workload: {model: llama-3-8b, options: {tp: 4}}
platform:
  file: dgx-h100
  npus: 4
  settings: {npu.compute.scale: 0.5, "npu.compute.beside": 0.75}   # half
parameters:
  platform.npu.compute.scale: {from: 0.5, to: 1.5, steps: 3}
  x: {set: platform.npu.compute.beside, values: [0.75, 0.5]}
constraints: [x > 0]
"""


def test_platform_keys_in_a_sweep(tmp_path: Path) -> None:
    """Fixed and varied; `beside` is what is left where transfers run, so that values change too."""
    found = migrate(write(tmp_path, SETTINGS))
    assert found.after == (
        SETTINGS.replace("npu.compute.scale", "npu.compute.speedup")
        .replace('"npu.compute.beside": 0.75', '"npu.compute.comm_overlap_slowdown": 0.25')
        .replace(
            "npu.compute.beside, values: [0.75, 0.5]",
            "npu.compute.comm_overlap_slowdown, values: [0.25, 0.5]",
        )
    )
    assert not found.left
    assert not migrate(write(tmp_path, found.after)).changes


def test_platform_keys_in_rows(tmp_path: Path) -> None:
    text = (
        "workload: {model: llama-3-8b, options: {tp: 4}}\nplatform: {npus: 4}\nrows:\n"
        "- {platform.file: dgx-h100, platform.npu.compute.beside: 0.75}\n"
        "- {platform.file: dgx-a100, platform.npu.compute.beside: 1.0}\n"
    )
    found = migrate(write(tmp_path, text))
    assert found.after == text.replace("beside: 0.75", "comm_overlap_slowdown: 0.25").replace(
        "beside: 1.0", "comm_overlap_slowdown: 0"
    )


def test_a_range_whose_values_change_is_left(tmp_path: Path) -> None:
    """1 - x turns a range around."""
    text = SETTINGS.replace("compute.scale: {", "compute.beside: {").replace("1.5", "0.75")
    found = migrate(write(tmp_path, text))
    assert [each.place for each in found.left] == ["parameters.platform.npu.compute.beside"]
    assert "comm_overlap_slowdown by hand" in found.left[0].why


def test_platform_keys_in_a_design(tmp_path: Path) -> None:
    text = DESIGN.replace(
        "npu: {peak: 400 TFLOPS}",
        "npu: {peak: 400 TFLOPS, compute: {model: roofline, beside: 0.75}}\n"
        "settings: {npu.compute.scale: 2}",
    )
    found = migrate(write(tmp_path, text))
    assert yaml.safe_load(found.after)["npu"]["compute"]["comm_overlap_slowdown"] == 0.25
    assert "settings: {npu.compute.speedup: 2}" in found.after


@pytest.mark.parametrize("text", [PLATFORM, SWEEP, DESIGN, SETTINGS])
@pytest.mark.parametrize(
    "layout",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "# ä 漢 \U0001f600\n" + text,
        lambda text: "---\n" + text,
    ],
    ids=["crlf", "mark", "no end", "letters", "head"],
)
def test_the_rest_of_a_file_stays(text: str, layout: Callable[[str], str], tmp_path: Path) -> None:
    """Byte by byte what the plain text becomes, in the same layout."""
    plain = migrate(write(tmp_path, text)).after
    assert migrate(write(tmp_path, layout(text))).after == layout(plain)


OURS = sorted(
    path
    for folder in ("systems", "models", "costs", "frameworks", "examples")
    for path in (ROOT / folder).rglob("*.yml")
    if not {"parts", "fabric"} & set(path.parts)  # no platforms by themselves
)


@pytest.mark.parametrize("path", OURS[:: max(1, len(OURS) // 40)], ids=lambda path: path.name)
def test_our_own_files_have_no_old_word(path: Path) -> None:
    found = migrate(path)
    assert found.after == found.before
    assert not found.left


BAD: dict[str, tuple[bytes, str]] = {
    "no kind": (b"a: 1\n", "no kind of file that is known"),
    "empty": (b"", "no kind of file"),
    "a list": (b"- 1\n- 2\n", "no kind of file"),
    "not YAML": (b"topology: [\n", "is not YAML"),
    "not UTF-8": (b"topology: \xff\xfe\n", "is not UTF-8"),
    "an alias": (b"npu: &a {peak: 1}\nlinks: *a\n", "uses an alias"),
    "a key twice": (b"npu: {scale: 1}\nnpu: {scale: 2}\n", "is given twice"),
    "too deep": (b"npu: " + b"[" * 200 + b"]" * 200, "nested too deeply"),
    "a wrong platform": (b"topology: Rng(4)\nnpu: {peak: 1}\n", "Rng"),
    "old and new": (PLATFORM.replace("model:", "speedup: 1, model:").encode(), "old name"),
    "no such model": (SWEEP.replace("llama-3-8b", "lama-3").encode(), "lama-3"),
    "two documents": (b"npu: {}\n---\nnpu: {}\n", "is not YAML"),
    "a tag": (b"npu: !!python/object:os.system {}\n", "is not YAML"),
}


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=list(BAD))
def test_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yml"
    path.write_bytes(content)
    with pytest.raises(arm.InputError, match=said):
        migrate(path)
    assert path.read_bytes() == content


def test_no_file(tmp_path: Path) -> None:
    for name in ("none.yml", "", str(tmp_path), "/dev/null", "a\0b"):
        with pytest.raises(arm.InputError):
            migrate(name)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(arm.InputError, match="a pipe"):
        migrate(tmp_path / "pipe")


def test_what_a_person_has_to_replace(tmp_path: Path) -> None:
    """A seed that varies sets nothing, and an option next to its new name has no one value."""
    text = SWEEP.replace("kernels: eager", "zero: 2").replace(
        "parameters:", "parameters:\n  seed: [1, 2]"
    )
    found = migrate(write(tmp_path, text))
    assert {each.place for each in found.left} == {
        "workload.options.distributed_optimizer",
        "parameters.seed",
    }
    assert "distributed_optimizer: true" in found.after


def test_a_constraint_with_the_old_word_is_refused(tmp_path: Path) -> None:
    text = SWEEP.replace("and merged", "and workload.merged")
    path = write(tmp_path, text)
    with pytest.raises(arm.InputError, match="constraints"):
        migrate(path)


def test_links_and_backups(tmp_path: Path) -> None:
    """No file of another folder is written over, and no backup."""
    (tmp_path / "other").mkdir()
    (tmp_path / "here").mkdir()
    write(tmp_path / "other", PLATFORM)
    (tmp_path / "here/link.yml").symlink_to(tmp_path / "other/f.yml")
    with pytest.raises(arm.InputError, match="a link to another folder"):
        require_free([migrate(tmp_path / "here/link.yml")])
    own = migrate(write(tmp_path, PLATFORM))
    (tmp_path / "f.yml.orig").write_text("mine")
    with pytest.raises(arm.InputError, match="is there already"):
        require_free([own])


def test_the_verb(armillary: Armillary, tmp_path: Path) -> None:
    write(tmp_path, PLATFORM, "p.yml")
    shown = armillary("migrate", "p.yml")
    assert shown.returncode == 0, shown.stderr
    assert "+  compute: {model: roofline, speedup: 0.5," in shown.stdout
    assert (tmp_path / "p.yml").read_text() == PLATFORM
    checked = armillary("migrate", "p.yml", "--check", "--json", "found.json")
    assert checked.returncode == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["schema"] == "armillary.migrate/1"
    assert {each["new"] for each in found["files"][0]["changes"]} >= {"speedup", "0.25"}
    made = armillary("migrate", "p.yml", "-o", "-")
    written = armillary("migrate", "p.yml", "--in-place")
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "p.yml").read_text() == made.stdout
    assert (tmp_path / "p.yml.orig").read_text() == PLATFORM
    assert armillary("migrate", "p.yml", "--check").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "found.json", "p.yml", "p.yml.orig",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["p.yml", "--in-place", "--check"], "exclude each other"),
        (["p.yml", "p.yml"], "is named twice"),
        (["p.yml", "q.yml", "-o", "r.yml"], "for 2 files"),
        (["p.yml", "-o", "p.yml"], "the input p.yml"),
        (["none.yml", "no.yml"], "2 problems"),
        ([], "FILE"),
    ],
    ids=" ".join,
)
def test_a_wrong_command(words: list[str], said: str, armillary: Armillary, tmp_path: Path) -> None:
    for name in ("p.yml", "q.yml"):
        write(tmp_path, PLATFORM, name)
    run = armillary("migrate", *words)
    assert run.returncode == 2
    assert said in run.stderr
