"""Criteo's logs: read as a plain reader does, shared out over ranks, and refused with the place."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary.errors import InputError
from armillary_train.data import criteo, text
from armillary_train.data.criteo import Criteo, Lines, open_files
from armillary_train.data.samples import Part

ROWS = tuple(range(3, 29))


def line(number: int) -> str:
    """A line that depends on its number, with missing fields and negative counts."""
    made = np.random.default_rng(number)
    counts = ["" if made.random() < 0.3 else str(made.integers(-2, 5000)) for _ in range(13)]
    ids = ["" if made.random() < 0.1 else f"{made.integers(2**32):x}" for _ in range(26)]
    return "\t".join([str(made.integers(2)), *counts, *ids])


def written(path: Path, numbers: range, packed: bool = False, end: str = "\n") -> Path:
    text = ("\n".join(map(line, numbers)) + end).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


def plainly(number: int) -> tuple[float, list[float], list[int]]:
    """What a line says, read field by field."""
    label, *values = line(number).split("\t")
    counts = [max(int(value or 0), -1) for value in values[:13]]
    ids = [int(value or "0", 16) % rows for value, rows in zip(values[13:], ROWS, strict=True)]
    return float(label), [float(np.log(np.float32(count + 3))) for count in counts], ids


def check(parts: list[Part], numbers: range) -> None:
    """Parts of one rank hold these lines, in order."""
    samples = [part.samples for part in parts]
    labels = np.concatenate([each.labels for each in samples])
    dense = np.concatenate([each.dense for each in samples])
    ids = np.concatenate([each.indices.reshape(26, -1) for each in samples], axis=1)
    expected = [plainly(number) for number in numbers]
    assert labels.tolist() == [each[0] for each in expected]
    assert np.allclose(dense, [each[1] for each in expected], rtol=1e-6)
    assert ids.T.tolist() == [each[2] for each in expected]
    assert all((each.lengths == 1).all() for each in samples)


@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 4), st.booleans(), st.booleans())
@settings(max_examples=usually(12, 250), deadline=None)
def test_every_rank_gets_its_lines(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    batch: int,
    ranks: int,
    packed: bool,
    ended: bool,
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    first = written(folder / "day_0", range(count), packed, "\n" if ended else "")
    second = written(folder / "day_1", range(count, 2 * count), not packed)
    source = Criteo((Lines(first), Lines(second)), ROWS)
    found = [list(source.parts(batch, rank, ranks)) for rank in range(ranks)]
    assert len({tuple(part.whole for part in each) for each in found}) == 1
    assert sum(part.whole for part in found[0]) == 2 * count
    place = 0
    for at in range(len(found[0])):
        for each in found:
            part = each[at]
            assert part.first == place
            if len(part.samples):
                check([part], range(place, place + len(part.samples)))
            place += len(part.samples)


def test_blocks_and_groups_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read in blocks and parsed in groups, both smaller here than a batch or a file."""
    monkeypatch.setattr(text, "BLOCK", 700)
    monkeypatch.setattr(criteo, "_GROUP", 10)
    source = Criteo((Lines(written(tmp_path / "log", range(60))),), ROWS)
    check(list(source.parts(7, 0, 1)), range(60))
    check(list(source.parts(100, 0, 1)), range(60))


def test_a_file_holds_its_last_sevenths_out(tmp_path: Path) -> None:
    path = written(tmp_path / "train.txt", range(70))
    train, held_out = open_files(path, ROWS, 2)
    assert (train.size, held_out.size) == (50, 20)
    check(list(train.parts(16, 0, 1)), range(50))
    check(list(held_out.parts(16, 0, 1)), range(50, 70))


def test_a_folder_holds_its_last_days_out(tmp_path: Path) -> None:
    for day in (0, 2, 10):
        written(tmp_path / f"day_{day}", range(day * 10, day * 10 + 5))
    train, held_out = open_files(tmp_path, ROWS, 1)
    assert train.size is None
    assert [each.path.name for each in (*train.files, *held_out.files)] == [
        "day_0",
        "day_2",
        "day_10",
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (0, "2", "line 5: label"),
        (0, "", "line 5: label"),
        (3, "1.5", "line 5: count 3"),
        (14, "xyz", "line 5: category 1"),
        (39, "123456789", "line 5: category 26"),
        (20, "-1", "line 5: category 7"),
        (20, "a\tb", "line 5: has 41 fields"),
    ],
)
def test_faults_have_a_place(tmp_path: Path, field: int, value: str, said: str) -> None:
    lines = [line(number).split("\t") for number in range(9)]
    lines[4][field] = value
    path = tmp_path / "log"
    path.write_text("\n".join("\t".join(each) for each in lines))
    with pytest.raises(InputError) as raised:
        list(Criteo((Lines(path),), ROWS).parts(3, 0, 1))
    assert said in str(raised.value) and str(path) in str(raised.value)


def test_a_line_with_too_few_fields_next_to_one_with_too_many(tmp_path: Path) -> None:
    lines = [line(number) for number in range(4)]
    lines[1], lines[2] = lines[1].rpartition("\t")[0], lines[2] + "\tab"
    path = tmp_path / "log"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match="line 2: has 39 fields"):
        list(Criteo((Lines(path),), ROWS).parts(4, 0, 1))


def test_files_that_cant_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        open_files(tmp_path / "none", ROWS, 1)
    with pytest.raises(InputError, match="0 files"):
        open_files(tmp_path, ROWS, 1)
    with pytest.raises(InputError, match="too few"):
        open_files(written(tmp_path / "one", range(1)), ROWS, 1)
    whole = gzip.compress(b"\n".join(line(number).encode() for number in range(50)))
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="to its end"):
        open_files(tmp_path / "cut.gz", ROWS, 1)
    (tmp_path / "spoiled.gz").write_bytes(whole[:20] + b"\xff" * 20 + whole[40:])
    with pytest.raises(InputError, match="to its end"):
        open_files(tmp_path / "spoiled.gz", ROWS, 1)
    with pytest.raises(InputError, match="26: the categories"):
        Criteo((), (1, 2))
