"""No function that runs code from files or messages is called in the tree, but for the listed ones.

"A file must never run code" (SECURITY.md). Functions whose name does not say that they unpickle are
the danger: PyTorch's `FileSystemReader` and `all_gather_object`, for example."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

FOLDERS = ("python", "train/python", "lab", "tools", "examples", "fuzz", "adapters")

MODULES = {
    "pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "copyreg",
    "multiprocessing", "xmlrpc", "code", "pty", "torch.package", "torch.hub",
    "torch.multiprocessing", "torch.distributed.rpc", "torch.distributed.checkpoint", "pandas",
}  # fmt: skip
"""Modules that unpickle, or run code, in most of what they do."""

NAMES = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
"""Functions of Python."""

ATTRIBUTES = {
    # PyTorch's collectives for objects, and what reads its files.
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
    "send_object_list", "recv_object_list", "FileSystemReader", "load_state_dict_from_url",
    "load_library", "load_inline", "torch.load", "jit.load", "export.load", "dcp.load", "hub.load",
    # Other libraries: `np.load` has `allow_pickle`, `onnx.load` opens the files that a model names.
    "np.load", "numpy.load", "allow_pickle", "onnx.load", "load_external_data_for_model",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "UnsafeLoader",
    "FullLoader",
    "pl.deserialize", "Expr.deserialize", "LazyFrame.deserialize", "DataFrame.deserialize",
    # Python: modules and programs by name.
    "import_module", "run_path", "run_module", "spec_from_file_location", "CDLL", "dlopen",
    "os.system", "os.popen", "shell", "subprocess.getoutput", "subprocess.getstatusoutput",
    "builtins.eval", "builtins.exec", "ProcessPoolExecutor",
}  # fmt: skip
"""Attributes and keywords; with a dot, only behind that name."""

ALLOWED = {
    ("python/armillary/_late.py", "import_module"): "names of our own files, from a table",
    (
        "python/armillary/_moved.py",
        "compile",
    ): "a program of our own, for `python -m` with an old name",
    ("python/armillary/_moved.py", "import_module"): "new names of our own files, from a table",
    ("python/armillary/_moved.py", "run_module"): "new names of our own files, from a table",
    ("python/armillary/cli/app.py", "import_module"): "names of our own verbs, from a table",
    ("python/armillary/workload/families.py", "import_module"): "our own families, from a table",
    (
        "lab/python/armillary_lab/studies/__init__.py",
        "import_module",
    ): "our own studies, from a table",
    (
        "lab/peers/record_torchrec.py",
        "torch.load",
    ): "files of this repository, with weights_only, in the environment of a peer",
    (
        "lab/peers/record_torchrec.py",
        "torch.distributed.checkpoint",
    ): "files of this repository, in the environment of a peer",
    ("lab/tests/test_old_names.py", "import_module"): "names of our own files, from a table",
    ("python/armillary/sweep/search.py", "import_module"): "optuna",
    ("python/armillary/sweep/ray_executor.py", "import_module"): "ray",
    ("train/python/armillary_train/data/ray_readers.py", "import_module"): "ray",
    (
        "train/python/armillary_train/data/ray_readers.py",
        "pickle",
    ): "a Ray cluster unpickles by itself "
    "whatever its processes send; SECURITY.md says that it is trusted",
    ("python/armillary/machine.py", "CDLL"): "the C library of the process itself",
    ("tools/papers.py", "run_path"): "our own examples, from a table",
    ("lab/bench/python/cache.py", "CDLL"): "the C library of the process itself",
    ("lab/bench/python/checkpoints.py", "torch.distributed.checkpoint"): "writes only",
    ("lab/bench/python/embedding.py", "import_module"): "FBGEMM",
    ("lab/bench/python/embedding.py", "CDLL"): "the libraries of PyTorch",
    ("lab/bench/python/embedding_gpu.py", "import_module"): "FBGEMM",
    ("lab/bench/python/row_updates.py", "CDLL"): "what it has compiled itself",
    ("lab/bench/python/threads.py", "multiprocessing"): "its own processes",
    ("examples/checkpoints/record.py", "torch.distributed.checkpoint"): "writes only",
    ("fuzz/python/targets.py", "run_path"): "files of our own tests",
    ("fuzz/python/smaller_targets.py", "run_path"): "files of our own tests",
}
"""File and function, and why no file or message of others reaches it."""


def found(tree: ast.AST) -> Iterator[str]:
    """Entries of the lists above that a file names."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from filter(None, (_module(alias.name) for alias in node.names))
            case ast.ImportFrom(level=0):
                each = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
                yield from filter(None, map(_module, each))
                yield from (one.name for one in node.names if one.name in ATTRIBUTES | NAMES)
                last = (node.module or "").rpartition(".")[2]
                yield from (
                    name for one in node.names if (name := f"{last}.{one.name}") in ATTRIBUTES
                )
            case ast.Name() if node.id in NAMES:
                yield node.id
            case ast.Attribute():
                owner = node.value
                before = getattr(owner, "attr", getattr(owner, "id", ""))
                yield from {node.attr, f"{before}.{node.attr}"} & ATTRIBUTES
            case ast.keyword() if node.arg in ATTRIBUTES:
                yield str(node.arg)
            case ast.Constant() if isinstance(node.value, str) and node.value in ATTRIBUTES:
                yield node.value  # getattr(dist, "all_gather_object")


def _module(name: str) -> str | None:
    return next((each for each in MODULES if f"{name}.".startswith(f"{each}.")), None)


def in_tree() -> dict[tuple[str, str], int]:
    counted: dict[tuple[str, str], int] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in found(ast.parse(path.read_text(encoding="utf-8"))):
                key = str(path.relative_to(ROOT)), name
                counted[key] = counted.get(key, 0) + 1
    return counted


def test_nothing_runs_code_from_files() -> None:
    assert {key for key in in_tree() if key not in ALLOWED} == set()


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    assert ALLOWED.keys() - in_tree().keys() == set()


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import torch.distributed.checkpoint as dcp",
        "from torch.distributed import checkpoint", "from multiprocessing import Pool",
        "from torch.distributed.checkpoint.filesystem import FileSystemReader",
        "dist.all_gather_object(found, 1)", "from torch import load", "torch.load(path)",
        "torch.jit.load(path)", "np.load(path)", "numpy.load(path, allow_pickle=True)",
        "f(x, allow_pickle=True)", "eval(x)", "map(eval, x)", "yaml.load(x)", "onnx.load(path)",
        "getattr(dist, 'broadcast_object_list')(x)", "importlib.import_module(x)", "os.system(x)",
        "subprocess.run(x, shell=True)", "import joblib", "ctypes.CDLL(path)",
    ],
)  # fmt: skip
def test_it_would_be_found(text: str) -> None:
    assert list(found(ast.parse(text)))


@pytest.mark.parametrize("text", ["json.loads(x)", "pl.element().list.eval(x)", "import yaml"])
def test_other_functions_are_not(text: str) -> None:
    assert not list(found(ast.parse(text)))


def test_it_is_the_tree_that_is_searched() -> None:
    assert all(list((ROOT / folder).rglob("*.py")) for folder in FOLDERS)
    assert Path(__file__).parts[-3:-1] == ("tests", "python")
