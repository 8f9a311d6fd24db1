"""Files that are no recording of PyTorch: Chrome's lists are read, the others are named."""

from __future__ import annotations

import json
import pickle
import sqlite3
from pathlib import Path

import pytest
from recorded import Recording

from armillary.errors import InputError
from armillary.workload.importer import import_traces


def recording() -> Recording:
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.kernel("a", 10, 100, 200)
    return trace


def said(path: Path) -> str:
    """Message about a file, and the way out that it shows."""
    with pytest.raises(InputError) as caught:
        import_traces([path])
    [problem] = caught.value.problems
    assert problem.help
    return problem.message


def written(tmp_path: Path, data: bytes, name: str = "file.json") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("end", ["]", "]\n", "", ",\n", "\n"])
def test_a_list_of_trace_events_is_a_trace(tmp_path: Path, end: str) -> None:
    """Chrome's JSON array format, whose end may be missing (Trace Event Format, 2016)."""
    trace = recording()
    text = json.dumps(trace.events)[:-1] + end
    [listed] = import_traces([written(tmp_path, text.encode())]).ranks
    [whole] = import_traces([trace.write(tmp_path / "whole.json")]).ranks
    assert listed.recorded_ps == whole.recorded_ps == 1_000_000_000
    assert listed.step_ps == whole.step_ps == 100_000_000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[1, 2], [3, 4]]", "is a list of lists; a memory timeline holds bytes"),
        ('[{"a": 1}]', "is a list without trace events"),
        ("[]", "is a list without trace events"),
        ("[1, 2]", "is a list without trace events"),
        ("\n\x20\x12\x0e/host:metadata", "is a profile of XLA that ends inside a field"),
        ("\n\x14\n\nembedding0\x10\0\x18\1\x18\1\x20\0", "is a strategy of FlexFlow"),
        ("\n\x15\n\6linear\x10\1\x1a\2\1\1\x22\1\0", "is a strategy of FlexFlow"),
        (
            '{"ngpus": 8, "measurements": [{"pc_str": "2-1"}]}',
            "is a table of operators that FlexFlow",
        ),
        ('{"rocprofiler-sdk-tool": []}', "is JSON of rocprofv3"),
        ('{"TraceProcessEvent": {}}', "is an export of Nsight Systems (JSON)"),
        ("<system/>", "is XML or HTML"),
        ("PK\x03\x04", "is a zip archive, such as a checkpoint of torch.save"),
        ("\x01\x02\x00\x05what", "is binary data of an unknown format"),
    ],
)
def test_what_a_file_is_instead(tmp_path: Path, text: str, what: str) -> None:
    assert what in said(written(tmp_path, text.encode()))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"segments": []}, "holds no segment and no event: nothing was allocated"),
        ([1, 2], "is a pickle of something else"),
        (Path("x"), "is a pickle that names 'pathlib.PosixPath', which is not loaded"),
    ],
)
def test_pickles_are_data_or_refused(tmp_path: Path, value: object, what: str) -> None:
    assert said(written(tmp_path, pickle.dumps(value), "snapshot.pickle")) == what


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("rocpd_kernel", "is a database of rocprofv3 (SQLite)"),
        ("StringIds", "is an export of Nsight Systems without CUDA"),
        ("settings", "is a SQLite database"),
    ],
)
def test_databases_are_known_by_their_tables(tmp_path: Path, table: str, what: str) -> None:
    path = tmp_path / "file.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (a)")
    connection.close()
    assert said(path) == what


@pytest.mark.parametrize("name", ["run.nsys-rep", "run.qdrep"])
def test_the_way_to_an_export_is_shown(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="nsys export --type sqlite"):
        import_traces([written(tmp_path, b"\x51\x00\x01", name)])


def test_a_report_of_nsight_is_known_by_its_name(tmp_path: Path) -> None:
    assert said(written(tmp_path, b"\x51\x00\x01", "run.nsys-rep")) == (
        "is a report of Nsight Systems"
    )


@pytest.mark.parametrize(
    ("process", "what"),
    [
        ("/device:TPU:0", "is a profile of XLA without an operation of a device"),
        ("CPU HIP API", "is a trace of rocprof"),
    ],
)
def test_traces_of_other_programs_are_named(tmp_path: Path, process: str, what: str) -> None:
    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "name": "fusion.1"},
    ]
    path = written(tmp_path, json.dumps({"traceEvents": events}).encode())
    assert what in said(path)
