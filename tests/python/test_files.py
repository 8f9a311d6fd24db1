"""Output files are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from armillary import InputError, files


def test_writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    files.write_text(target, "one")
    files.write_text(target, "two")
    assert target.read_text() == "two"
    assert list(tmp_path.iterdir()) == [target]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    files.write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_follows_a_link_to_the_file_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize(
    "write", [lambda path: files.write_text(path, "x"), files.require_writable]
)
@pytest.mark.parametrize("path", ["/proc/no-such/out.json", "/dev/null/out.json", "."])
def test_names_path_and_reason(write, path: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    with pytest.raises(InputError) as caught:
        write(path)
    [problem] = caught.value.problems
    assert problem.file == path
    assert problem.message.startswith("can't be written: ")
    assert problem.help


def test_full_disk_is_named() -> None:
    with pytest.raises(InputError, match="/dev/full: can't be written: No space left on device"):
        files.write_text("/dev/full", "x" * 100_000)


def test_interruption_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    files.require_writable(tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_directory_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out"
    with pytest.raises(RuntimeError), files.directory(target) as folder:
        (folder / "half").write_text("x")
        raise RuntimeError
    assert list(tmp_path.rglob("*")) == [tmp_path / "new"]
    for text in ("1", "2"):
        with files.directory(target) as folder:
            (folder / "file").write_text(text)
        assert [(file.name, file.read_text()) for file in target.iterdir()] == [("file", text)]
    (tmp_path / "plain").touch()
    with (
        pytest.raises(InputError, match="can't be written"),
        files.directory(tmp_path / "plain" / "out"),
    ):
        pass


def test_a_file_written_as_one_goes_is_there_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with files.file(target) as path:
        path.write_bytes(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_a_file_that_was_not_finished_is_gone(tmp_path: Path, stop: type[BaseException]) -> None:
    with pytest.raises(stop), files.file(tmp_path / "out.bin") as path:
        path.write_bytes(b"half")
        raise stop
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/no-such/out.bin", "/dev/null/out.bin", ".", "/dev/full"])
def test_a_file_that_cannot_be_written_is_named(path: str) -> None:
    with pytest.raises(InputError, match="can't be written: "), files.file(path) as scratch:
        scratch.write_bytes(b"x")


def test_the_root_is_no_output() -> None:
    with pytest.raises(InputError, match="root"), files.directory("/"):
        raise AssertionError("nothing may be written")
