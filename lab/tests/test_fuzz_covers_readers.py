"""Every function that reads a file of a user is run by the fuzzer, or is in the list below with the
reason why not.

Functions are found in the source by what they call. That the fuzzer runs them is measured: each
target reads its files as they are, and a profile says which functions ran."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import fuzz_readers
import pytest
import targets
from conftest import ROOT

PACKAGES = (
    ROOT / "python/armillary",
    ROOT / "train/python/armillary_train",
    ROOT / "lab/python/armillary_lab",
)
READS = {
    "content", "open_plain",
    "read_bytes", "read_text", "read_stream", "parse_json", "parse_yaml", "scan_parquet",
    "read_parquet", "read_parquet_metadata", "scan_csv", "read_csv", "fromfile", "memmap",
    "ZipFile", "GzipFile", "parse_xml", "fromstring", "iterparse", "deserialize",
}  # fmt: skip
"""Functions that read files or parse what was read. `open` for reading counts too."""

_CASES = 4
"""Cases of each target that are read."""

_OWN = "what this program wrote itself, to a place of its own"
_MACHINE = "what the system says of itself"
_DATA = "data of the package"
_OURS = "documents and presets of the repository"
_PASSES_ON = "passes on what was read elsewhere"
NOT_FUZZED = {
    "cli/options.py typed_settings": "words of the command line, by the reader of all YAML",
    "cli/serve.py _engine_values": "words of the command line, by the reader of all YAML",
    "documents.py read_bytes": _PASSES_ON,
    "capture/kept.py capture": "refuses what does not have its checksum",
    "kept_runs.py KeptRuns.__init__": _OWN,
    "kept_runs.py digest": _OWN,
    "files.py _keep": "opens what it has written",
    "explain/parquet_columns.py _read": "runs in a process that the target step_trace starts",
    "ranks/exchange.py Exchange._seen": "memory of a process of the same run",
    "machine.py _held": _MACHINE,
    "machine.py _groups": _MACHINE,
    "machine.py _above": _MACHINE,
    "machine.py _fields": _MACHINE,
    "bench/run.py _machine": _MACHINE,
    "report/page.py _file": _DATA,
    "measured/serving.py measured": _DATA,
    "measured/serving.py requests": _DATA,
    "report/viewer.py _comment": _DATA,
    "report/viewer.py _bundle": _DATA,
    "uncertainty/tables.py of": _DATA,
    "uncertainty/kernels.py _table": _DATA,
    "fit/kernels/files.py tree": _OURS,
    "fit/kernels/files.py write": _OURS,
    "fit/kernels/intervals.py write": _OURS,
    "fit/library_presets.py main": _OURS,
    "fit/library_presets.py save": _OURS,
    "measured/kernels/__init__.py shipped": _DATA,
    "measured/one_node.py measured": _DATA,
    "measured/sweeps.py _table": _DATA,
    "measured/training.py _table": _DATA,
    "measured/vision.py visions": _DATA,
    "model/files.py models_by_family": _DATA,
    "pages/accuracy.py main": _OURS,
    "score/aiconfigurator.py estimates": _OURS,
    "predict/left_out.py _table": _DATA,
    "peers/flits.py read": _DATA,
    "peers/packets.py read": _DATA,
    "studies/neo_messages.py _score": _OWN,
    "sweep/journal.py _digests": "reads bytes for a checksum alone",
    "checkpoint/saver.py Saver._commit": _OWN,
    "data/shuffle.py Shuffler._read": _OWN,
    "run/launch.py _reports": _OWN,
    "run/launch.py _silent": _OWN,
    "run/profiler.py _whole": _OWN,
}
"""File in its package and function, and why it is not fuzzed."""


def _calls(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _calls(child, f"{inside}.{child.name}".lstrip("."))
        else:
            if isinstance(child, ast.Call):
                yield inside, child
            yield from _calls(child, inside)


def _reads(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name != "open":
        return name in READS
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    mode = next((each for each in call.args if isinstance(each, ast.Constant)), None)
    is_os = isinstance(owner, ast.Name) and owner.id == "os"
    return not is_os and (mode is None or str(mode.value).startswith("r"))


@cache
def readers() -> frozenset[str]:
    """File and function of everything that reads files."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            file = path.relative_to(package)
            if "systems" not in file.parts:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                found |= {f"{file} {name}" for name, call in _calls(tree) if _reads(call)}
    return frozenset(found)


def run_by_the_fuzzer(tmp_path: Path) -> set[str]:
    """File and function of all that ran while each target read its files."""
    found: set[str] = set()
    starts = tuple(f"{package}/" for package in PACKAGES)

    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code in seen:
            return
        seen.add(frame.f_code)
        start = next(filter(frame.f_code.co_filename.startswith, starts), None)
        if start is not None:
            file = frame.f_code.co_filename.removeprefix(start)
            found.add(f"{file} {frame.f_code.co_qualname.replace('.<locals>', '')}")

    for target in targets.TARGETS:
        for number, files in enumerate(target.cases()[:_CASES]):
            folder = tmp_path / f"{target.name}-{number}"
            folder.mkdir()
            for name, data in files.items():
                (folder / name).write_bytes(data)
            threading.setprofile(note)
            sys.setprofile(note)
            try:
                fuzz_readers.again(target, folder, files)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
    return found


def test_every_reader_is_fuzzed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the readers of checkpoints need PyTorch")
    # Its import would count as time of the first case that needs it.
    import armillary.capture.run  # noqa: F401

    assert readers() - NOT_FUZZED.keys() - run_by_the_fuzzer(tmp_path) == set()


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    assert NOT_FUZZED.keys() - readers() == set()


@pytest.mark.parametrize(
    "text",
    [
        "documents.read_text(path, '')", "path.open('rb')", "open(path)", "path.open(encoding='x')",
        "pl.scan_parquet(path)", "np.memmap(path)", "zipfile.ZipFile(path)",
    ],
)  # fmt: skip
def test_a_reader_would_be_found(text: str) -> None:
    assert any(_reads(call) for _, call in _calls(ast.parse(text)))


@pytest.mark.parametrize("text", ["path.open('wb')", "os.open(path, 1)", "json.loads(text)"])
def test_other_calls_are_not(text: str) -> None:
    assert not any(_reads(call) for _, call in _calls(ast.parse(text)))
