"""Hostile checkpoints of other programs: nothing in them runs, and none ends in a traceback."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT, Armillary

from armillary.errors import InputError
from armillary.model import load_model
from armillary.model.dlrm import parse

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

from armillary.plain_pickle import RefusedError, plain
from armillary_train.checkpoint import importing
from armillary_train.checkpoint.torch_distributed import METADATA, read_distributed
from armillary_train.checkpoint.torch_save import Saved

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:.*torch.jit", "ignore:TypedStorage"
)
RECORDED = ROOT / "examples/checkpoints"
FACTS = parse(load_model(str(RECORDED / "dcn.yml")))


@cache
def theirs() -> ModuleType:
    """The module that writes checkpoints of PyTorch. It takes a second to load, on one worker."""
    import torch.distributed.checkpoint as found

    return found


@dataclass
class Call:
    """An object whose pickle calls a function."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    shutil.copytree(RECORDED / "torchrec-dcn", folder)
    return folder


def refused(source: Path, tmp_path: Path, match: str) -> None:
    with pytest.raises(InputError, match=match):
        importing.import_(str(source), FACTS, str(tmp_path / "out"))
    assert not list((tmp_path / "out").glob("step-*"))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, exec, os.mkdir])
def test_a_folder_runs_no_code(function: Callable[..., Any], protocol: int, tmp_path: Path) -> None:
    folder, mark = copied(tmp_path), tmp_path / "PWNED"
    text = f"import os; os.mkdir({str(mark)!r})" if function is exec else f"mkdir {mark}"
    call = Call(function, (str(mark) if function is os.mkdir else text,))
    metadata = theirs().FileSystemReader(folder).read_metadata()
    for content in (call, {"a": call}, [call]):
        (folder / METADATA).write_bytes(pickle.dumps(content, protocol))
        refused(folder, tmp_path, "can't be read")
    metadata.planner_data = call  # PyTorch's reader would go on as if nothing had been.
    (folder / METADATA).write_bytes(pickle.dumps(metadata, protocol))
    refused(folder, tmp_path, "can't be read")
    assert not mark.exists()


def test_the_command_refuses_such_a_folder(armillary: Armillary, tmp_path: Path) -> None:
    mark, folder = tmp_path / "PWNED", tmp_path / "evil"
    folder.mkdir()
    (folder / METADATA).write_bytes(pickle.dumps(Call(os.system, (f"touch {mark}",))))
    out = tmp_path / "out"
    run = armillary("checkpoint", "import", folder, "--model", "dlrm-small", "-o", out)
    assert (run.returncode, mark.exists()) == (2, False)
    assert "names 'posix.system', which is not loaded" in run.stderr


def test_a_known_class_is_not_made(tmp_path: Path) -> None:
    """Not even one that is on the list: only its values are kept."""
    path = tmp_path / "made"
    data = pickle.dumps(Call(open, (str(path), "w")))
    name = ("io", "open") if b"\x8c\x02io" in data else ("_io", "open")
    plain(data, {name})
    assert not path.exists()


def test_files_of_torch_save_run_no_code(tmp_path: Path) -> None:
    mark = tmp_path / "PWNED"
    for zipped in (True, False):
        content = {"state_dict": {"x": Call(os.mkdir, (str(mark),))}}
        torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
        refused(tmp_path / "a.pt", tmp_path, "can't be read")
    module = torch.jit.script(torch.nn.Linear(2, 2))
    torch.jit.save(module, tmp_path / "script.pt")
    refused(tmp_path / "script.pt", tmp_path, "can't be read")
    assert not mark.exists()


def test_parts_with_code_run_none(tmp_path: Path) -> None:
    folder, mark = copied(tmp_path), tmp_path / "PWNED"
    stream = io.BytesIO()
    torch.save(Call(os.mkdir, (str(mark),)), stream)
    for path in folder.glob("*.distcp"):
        path.write_bytes((stream.getvalue() * 100)[: path.stat().st_size])
    refused(folder, tmp_path, "can't be read")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "/etc/passwd", "..", "", "a/b", "a\0b"])
def test_files_are_those_of_the_folder(name: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    metadata = theirs().FileSystemReader(folder).read_metadata()
    for place in metadata.storage_data.values():
        place.relative_path = name
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    refused(folder, tmp_path, "which is not a file of the folder")


def test_sizes_that_are_not_there_take_no_memory(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    metadata = theirs().FileSystemReader(folder).read_metadata()
    for facts in metadata.state_dict_metadata.values():
        assert isinstance(facts, theirs().TensorStorageMetadata)
        facts.size = torch.Size([2**40, *facts.size[1:]])
        facts.chunks[0].sizes = facts.size
        del facts.chunks[1:]
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    refused(folder, tmp_path, "its files have")


@pytest.mark.parametrize("change", ["twice", "missing", "outside"])
def test_parts_cover_a_tensor_once(change: str, tmp_path: Path) -> None:
    """Or else elements would be whatever was in memory."""
    folder = tmp_path / "theirs"
    theirs().save({"emb_l.0.weight": torch.ones(4, 2)}, checkpoint_id=folder, no_dist=True)
    metadata = theirs().FileSystemReader(folder).read_metadata()
    facts = metadata.state_dict_metadata["emb_l.0.weight"]
    assert isinstance(facts, theirs().TensorStorageMetadata)
    sizes = {"twice": [6, 2], "missing": [5, 2], "outside": [4, 2]}[change]
    facts.size = torch.Size(sizes)
    if change == "twice":
        facts.chunks += [type(facts.chunks[0])(torch.Size([1, 0]), torch.Size([2, 2]))]
    if change == "outside":
        facts.chunks[0].offsets = torch.Size([1, 0])
    index = next(iter(metadata.storage_data))
    for chunk in facts.chunks:
        key = theirs().metadata.MetadataIndex(index.fqn, chunk.offsets)
        metadata.storage_data[key] = metadata.storage_data[index]
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    refused(folder, tmp_path, "not the whole once")


@pytest.mark.parametrize("name", ["__0_0.distcp", METADATA])
def test_cut_folders_are_refused(name: str, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    whole = (folder / name).read_bytes()
    for share in range(0, 100, 7):
        (folder / name).write_bytes(whole[: len(whole) * share // 100])
        refused(folder, tmp_path, "can't be read|its files have")


def test_compressed_files_are_refused(tmp_path: Path) -> None:
    """A megabyte of them can be a thousand megabytes in memory."""
    with (
        zipfile.ZipFile(RECORDED / "dlrm.pt") as old,
        zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for each in old.namelist():
            new.writestr(each, old.read(each))
    refused(tmp_path / "a.pt", tmp_path, "compressed|larger than the whole")


def test_parts_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    """Entries of an archive that overlap can be of any size together."""
    data = bytearray((RECORDED / "dlrm.pt").read_bytes())
    with zipfile.ZipFile(RECORDED / "dlrm.pt") as archive:
        start, count = archive.start_dir, len(archive.namelist())
    end = data.rindex(b"PK\5\6")
    directory = bytes(data[start : data.index(b"PK\6\6") if b"PK\6\6" in data else end])
    copies = 60
    tail = struct.pack(
        "<4s4H2LH",
        b"PK\5\6",
        0,
        0,
        count * copies,
        count * copies,
        len(directory) * copies,
        start,
        0,
    )
    (tmp_path / "a.pt").write_bytes(bytes(data[:start]) + directory * copies + tail)
    refused(tmp_path / "a.pt", tmp_path, "larger than the whole")


def test_tensors_that_share_their_numbers_take_them_once(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    torch.save({"a": whole, "b": whole[2:4]}, tmp_path / "a.pt")
    with (tmp_path / "a.pt").open("rb") as stream:
        saved = Saved(stream)
        one, other = (saved.tensor(saved.value[key]) for key in "ab")
    assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    assert other.tolist() == [2, 3]


def test_content_that_leads_back_ends(tmp_path: Path) -> None:
    content: dict[str, Any] = {}
    content["state_dict"] = content
    torch.save(content, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", tmp_path, "no tables under a known name")


def test_a_parameter_under_two_names_is_refused(tmp_path: Path) -> None:
    content = {f"{name}.embedding_bags.c0.weight": torch.ones(2, 2) for name in "ab"}
    torch.save(content, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", tmp_path, "the parameter of another name")


KINDS = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_pytorch(kind: str, tmp_path: Path) -> None:
    whole = (torch.arange(60) % 7).to(getattr(torch, kind)).reshape(6, 10)
    state: dict[str, Any] = {
        "a": whole,
        "turned": whole.T,
        "part": whole[1:4, 2:5],
        "one": whole[0, 0],
        "none": whole[:0],
        "number": 3.5,
    }
    if whole.is_floating_point():
        state["parameter"] = torch.nn.Parameter(whole)
    torch.save(state, tmp_path / "a.pt")
    with (tmp_path / "a.pt").open("rb") as stream:
        saved = Saved(stream)
        for key, value in state.items():
            found = saved.tensor(saved.value[key]) if key != "number" else saved.value[key]
            assert torch.equal(found, value) if key != "number" else found == value, key
            assert key == "number" or found.dtype == value.dtype
    tensors = {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}
    theirs().save(dict(tensors), checkpoint_id=tmp_path / "folder", no_dist=True)
    read = read_distributed(tmp_path / "folder", lambda _: True)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[key], value) for key, value in tensors.items())


def test_pickles_of_any_operation_end() -> None:
    """Every operation of a pickle by itself and behind some values."""
    import pickletools

    for operation in pickletools.opcodes:
        for before in (b"", b"\x80\x04}", b"\x80\x04(KK", b"\x80\x04]K\x01"):
            for after in (b".", b"\xff\xff\xff\x7f.", b"\n\n."):
                code = operation.code.encode("latin-1")
                try:
                    plain(before + code + after, set())
                except RefusedError:
                    continue
