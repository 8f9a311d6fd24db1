"""Times between measured kernels, and the file that holds them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from armillary import InputError, kernels
from armillary.kernels.interpolated import Measured
from armillary.kernels.measured_file import MeasuredFile, as_json, made, read_measured
from armillary.platform import Platform

GEMM = {"format": "bf16", "weights": "same", "library": "trtllm", "launch": "graph"}
SIZES = (64, 256, 1024, 4096)


def slowed(m: int, n: int) -> float:
    """A GPU that is slower than the formula by a factor that grows with both widths."""
    return 1.1 * math.pow(m / 64, 0.05) * math.pow(n / 64, 0.02)


def file(repeats: int = 1, noise: float = 0.0) -> MeasuredFile:
    """Products on a grid, measured on that GPU."""
    platform = Platform.load("dgx-h100")
    shapes = [kernels.Gemm(m=m, n=n, k=1024) for m in SIZES for n in SIZES]
    times = kernels.seconds(shapes, platform)
    draw = random.Random(1)
    rows = [
        (shape, 1e6 * time * slowed(shape.m, shape.n) * math.exp(noise * draw.uniform(-1, 1)))
        for shape, time in zip(shapes, times, strict=True)
        for _ in range(repeats)
    ]
    draw.shuffle(rows)
    return made("H100", "made up", rows)


def platform(folder: Path, measured: MeasuredFile, name: str = "h.kernels.json") -> Platform:
    (folder / name).write_text(as_json(measured), encoding="utf-8")
    text = f"extends: dgx-h100\nnpu: {{kernels: {{measured: {name}}}}}\n"
    (folder / "h.yml").write_text(text, encoding="utf-8")
    return Platform.load(folder / "h.yml")


def test_a_measured_kernel_has_its_time_and_repeats_their_median(tmp_path: Path) -> None:
    target = platform(tmp_path, file(repeats=3, noise=0.1))
    found = kernels.one(kernels.Gemm(m=256, n=64, k=1024), target)
    (rows,) = read_measured(tmp_path / "h.kernels.json").kernels
    times = [us for numbers, us in rows.times() if numbers[:2] == (256, 64)]
    assert found.seconds == pytest.approx(sorted(times)[1] / 1e6)
    assert (found.basis.how, found.basis.rows) == ("measured", 3)
    assert found.interval is not None
    low, high = found.interval.factors
    # Repeats spread evenly by 10 % around their median.
    assert 0.8 < low < 0.98
    assert 1.02 < high < 1.25


def test_between_rows_the_ratio_to_the_formula_is_interpolated(tmp_path: Path) -> None:
    target = platform(tmp_path, file())
    plain = Platform.load("dgx-h100")
    for m, n in ((128, 256), (512, 512), (2000, 100)):
        shape = kernels.Gemm(m=m, n=n, k=1024)
        found, ours = kernels.one(shape, target), kernels.one(shape, plain)
        assert found.basis.how == "interpolated"
        assert found.formula == ours.seconds
        assert found.seconds / ours.seconds == pytest.approx(slowed(m, n), rel=0.02)
        assert kernels.seconds([shape], target) == [found.seconds]


def test_outside_the_range_the_ratio_stays_and_the_interval_widens(tmp_path: Path) -> None:
    target = platform(tmp_path, file(noise=0.05))
    found = [kernels.one(kernels.Gemm(m=m, n=256, k=1024), target) for m in (2000, 8192, 65536)]
    assert [each.basis.how for each in found] == ["interpolated", "outside", "outside"]
    assert found[2].basis.said.startswith("outside the measured m 64 to 4096: the nearest 16 rows")
    ratios = [each.seconds / each.formula for each in found]
    assert ratios[1] == pytest.approx(ratios[2])
    widths = [each.interval.width for each in found if each.interval is not None]
    assert widths[0] < widths[1] < widths[2]


def test_other_words_have_the_formula(tmp_path: Path) -> None:
    target = platform(tmp_path, file())
    shape = kernels.Gemm(m=256, n=64, k=1024, format="fp8")
    found, ours = (kernels.one(shape, each) for each in (target, Platform.load("dgx-h100")))
    assert (found.seconds, found.interval) == (ours.seconds, ours.interval)
    assert found.basis.said == "formula: h.kernels.json has no gemm with these words"
    assert ours.basis.how == "formula"


def test_a_small_table_has_the_interval_of_the_formula(tmp_path: Path) -> None:
    one = made("H100", "", [(kernels.Gemm(m=64, n=64, k=64), 10.0)])
    target = platform(tmp_path, one)
    found = kernels.one(kernels.Gemm(m=128, n=64, k=64), target)
    assert found.basis.rows == 1
    assert found.interval is not None
    assert found.interval.labels["gpu"] == "H100"


def test_intervals_hold_four_measurements_in_five() -> None:
    """Rows whose noise is known, each left out of the table in turn."""
    draw = random.Random(2)
    shapes = {(draw.randint(1, 4096), draw.randint(1, 4096), 512, 1): 0.0 for _ in range(60)}
    times = {numbers: math.exp(draw.gauss(0, 0.1)) for numbers in shapes}
    held = 0
    for one in list(times)[:20]:
        rest = [
            (kernels.Gemm(m=m, n=n, k=k, copies=copies), us)
            for (m, n, k, copies), us in times.items()
            if (m, n, k, copies) != one
        ]
        group = Measured(made("", "", rest).kernels[0], lambda each: [1.0] * len(each))
        found, ends = group.time(one, 1.0), group.interval(one)
        assert found is not None
        assert ends is not None
        held += ends[0] <= times[one] / found.us <= ends[1]
    assert 12 <= held <= 20


def test_the_file_is_the_same_for_the_same_kernels(tmp_path: Path) -> None:
    text = as_json(file(repeats=2, noise=0.1))
    (tmp_path / "k.json").write_text(text, encoding="utf-8")
    found = read_measured(tmp_path / "k.json")
    assert as_json(found) == text
    assert json.loads(text)["kernels"][0]["numbers"]["m"] == sorted(SIZES * 8)


PAIR = {"m": [1, 2], "n": [1, 2], "k": [1, 2]}


def rows(**changes: object) -> dict[str, object]:
    numbers = {"m": [1, 2], "n": [1, 1], "k": [8, 8], "copies": [1, 1]}
    return {"kind": "gemm", "words": GEMM, "numbers": numbers, "us": [1.0, 2.0], **changes}


def document(*groups: object, **changes: object) -> str:
    head = {"schema": "armillary.measured_kernels/1", "npu": "H100", "source": "x"}
    return json.dumps({**head, "kernels": list(groups), **changes})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[1, 2]", "a mapping"),
        (document(rows(), schema="armillary.measured_kernels/2"), "schema"),
        (document(rows(kind="conv")), "conv"),
        (document(rows(words={"format": "bf16"})), "has format"),
        (document(rows(numbers={"m": [1, 2]})), "has m"),
        (document(rows(us=[1.0])), "has 2 values for 1 times"),
        (document(rows(us=[1.0, -2.0])), "-2.0"),
        (document(rows(us=[1.0, "2 us"])), "2 us"),
        (document(rows(us=[1.0, math.inf])), "inf"),
        (document(rows(us=[], numbers={key: [] for key in ("m", "n", "k", "copies")})), "is empty"),
        (document(rows(numbers={**PAIR, "copies": [1, -1]})), "-1"),
        (document(rows(numbers={**PAIR, "copies": [1, 1.5]})), "1.5"),
        (document(rows(), rows()), "of an earlier one"),
        (document(rows(), more=1), "unknown key"),
        (document(npu=["H100"]), "npu"),
        ('{"a": ' * 200, "not JSON"),
    ],
    ids=range(17),
)
def test_other_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        read_measured(path)
    assert said in str(raised.value), raised.value


def test_a_relative_path_stays_in_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    platform(tmp_path, file())
    text = "extends: dgx-h100\nnpu: {kernels: {measured: ../h.kernels.json}}\n"
    (inner / "h.yml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="leads out of its folder"):
        Platform.load(inner / "h.yml")
    shape = kernels.Gemm(m=256, n=64, k=1024)
    whole = {"npu.kernels.measured": str(tmp_path / "h.kernels.json")}
    found = kernels.one(shape, Platform.load("dgx-h100", whole))
    again = Platform.load("dgx-h100", whole).changed({"name": "again"})
    assert found.basis.how == kernels.one(shape, again).basis.how == "measured"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    target = Platform.load("dgx-h100", {"npu.kernels.measured": str(tmp_path / "none.json")})
    with pytest.raises(InputError, match=r"none\.json"):
        kernels.one(kernels.Gemm(m=8, n=8, k=8), target)
