"""Modules that moved to other packages, under their old names for one release.

Here: the table of old and new names, and the finder that serves it. An import of an old name warns
and gives the module of today; `python -m` with an old name runs it."""

from __future__ import annotations

import importlib
import runpy
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_MEASURED = ("file", "machines", "run", "rules", "megatron", "bridge", "mlperf", "stated", "steps")
_OLD: dict[str, str] = {
    "calibrate.levels": "armillary_lab.fit.hierarchy",
    "calibrate.together": "armillary_lab.fit.linear_program",
    "planner": "armillary.plan",
    "report.study": "armillary_lab.pages.study_table",
    "report.study_page": "armillary_lab.pages.study_page",
    "studies": "armillary_lab.studies",
    "study": "armillary_lab.study",
    "trainer": "armillary_train",
    "trainer.bench": "armillary_train.bench",
    "trainer.checkpoint": "armillary_train.checkpoint",
    "trainer.data": "armillary_train.data",
    "trainer.all_reduce": "armillary_train.ranks.all_reduce",
    "trainer.asynchronous": "armillary_train.run.asynchronous",
    "trainer.batch": "armillary_train.tables.batch",
    "trainer.caching": "armillary_train.tables.caching",
    "trainer.checkpoint.checkpoints": "armillary_train.checkpoint.run_checkpoints",
    "trainer.checkpoint.distributed": "armillary_train.checkpoint.torch_distributed",
    "trainer.checkpoint.saved": "armillary_train.checkpoint.torch_save",
    "trainer.checkpoint.tensors": "armillary_train.tensor_files",
    "trainer.checkpoint.tiles": "armillary_train.checkpoint.tensor_cover",
    "trainer.columns": "armillary_train.ranks.column_blocks",
    "trainer.course": "armillary_train.ranks.coroutines",
    "trainer.data.days": "armillary_train.data.log_days",
    "trainer.data.reader": "armillary_train.data.reader_process",
    "trainer.data.wrapped": "armillary_train.data.wrapped_source",
    "trainer.dense": "armillary_train.net.dense",
    "trainer.distribution": "armillary_train.ranks.index_distribution",
    "trainer.eight_bits": "armillary_train.checkpoint.eight_bits",
    "trainer.embedding": "armillary_train.tables.embedding",
    "trainer.exchange": "armillary_train.ranks.exchange",
    "trainer.gpu": "armillary_train.tables.gpu",
    "trainer.gpu_cache": "armillary_train.tables.gpu_cache",
    "trainer.gpu_kernels": "armillary_train.tables.gpu_kernels",
    "trainer.gpu_lookups": "armillary_train.tables.gpu_lookups",
    "trainer.gpu_numbers": "armillary_train.tables.gpu_numbers",
    "trainer.gpu_rows": "armillary_train.tables.gpu_rows",
    "trainer.held": "armillary_train.ranks.rank_collections",
    "trainer.launch": "armillary_train.run.launch",
    "trainer.length": "armillary_train.run.length",
    "trainer.logs": "armillary_train.run.logs",
    "trainer.lookups": "armillary_train.ranks.lookup_exchange",
    "trainer.loop": "armillary_train.run.loop",
    "trainer.mail": "armillary_train.ranks.process_messages",
    "trainer.message_rows": "armillary_train.ranks.message_rows",
    "trainer.metrics": "armillary_train.net.metrics",
    "trainer.model": "armillary_train.net.model",
    "trainer.module": "armillary_train.tables.module",
    "trainer.nodes": "armillary_train.ranks.node_exchange",
    "trainer.optimizers": "armillary_train.tables.optimizers",
    "trainer.outbox": "armillary_train.ranks.shared_memory",
    "trainer.pipeline": "armillary_train.run.pipeline",
    "trainer.ranges": "armillary_train.profile_ranges",
    "trainer.recording": "armillary_train.run.profiler",
    "trainer.rectangles": "armillary_train.ranks.table_parts",
    "trainer.row_sums": "armillary_train.ranks.column_optimizers",
    "trainer.sharded": "armillary_train.ranks.sharded",
    "trainer.sharding": "armillary_train.ranks.sharding",
    "trainer.stopping": "armillary_train.run.stopping",
    "trainer.tables": "armillary_train.tables.table",
    "trainer.tensor_train": "armillary_train.tables.tensor_train",
    "trainer.tensor_train_shapes": "armillary_train.tables.tensor_train_shapes",
    "trainer.wire": "armillary_train.ranks.number_formats",
    "trainer.world": "armillary_train.ranks.world",
    "validation": "",
    "validation.booksim": "armillary_lab.peers.booksim",
    "validation.collectives": "armillary_lab.score.collectives",
    "validation.coverage": "armillary_lab.score.coverage",
    "validation.fabrics": "armillary_lab.score.fabrics",
    "validation.figures": "armillary_lab.peers.figures",
    "validation.flits": "armillary_lab.peers.flits",
    "validation.floor": "armillary_lab.score.without_a_model",
    "validation.held_out": "armillary_lab.score.unseen_collectives",
    "validation.left_out": "armillary_lab.score.unseen_sources",
    "validation.left_out_hardware": "armillary_lab.fit.steps_on_unseen_hardware",
    "validation.left_out_steps": "armillary_lab.fit.steps_of_unseen_sources",
    "validation.levels": "armillary_lab.fit.libraries",
    "validation.measurements": "",
    "validation.measurements.__main__": "armillary_lab.score.__main__",
    "validation.measurements.collectives": "armillary_lab.predict.collectives",
    "validation.measurements.kernels": "armillary_lab.predict.kernels",
    "validation.measurements.scores": "armillary_lab.score.published",
    "validation.nanotron": "armillary_lab.predict.nanotron",
    "validation.packets": "armillary_lab.peers.packets",
    "validation.peak_memory": "armillary_lab.score.peak_memory",
    "validation.scatter": "armillary_lab.score.scatter",
    "validation.sweeps": "armillary_lab.measured.sweeps",
    "validation.training": "armillary_lab.measured.training",
    "validation.training_steps": "armillary_lab.score.training_steps",
    "validation.vision": "armillary_lab.score.vision",
} | {
    f"validation.measurements.{name}": f"armillary_lab.measured.published.{name}"
    for name in _MEASURED
}
"""Old name below `armillary` -> name of today; empty for a package that only held others."""

_PACKAGES = (
    "planner",
    "studies",
    "trainer",
    "trainer.bench",
    "trainer.checkpoint",
    "trainer.data",
    "validation",
    "validation.measurements",
)
"""Old names of packages. Whatever is in one that has a name of today moved with it."""


def today(name: str) -> str | None:
    """The name of today of a module, empty where nothing but its parts is left. `None` for one that
    did not move."""
    outer, _, below = name.partition(".")
    if outer != "armillary" or not below:
        return None
    if below in _OLD:
        return _OLD[below]
    package, _, part = below.rpartition(".")
    return f"{_OLD[package]}.{part}" if package in _PACKAGES and _OLD[package] else None


class OldNames(MetaPathFinder, InspectLoader):
    """Finds modules by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The place of a module that moved, which is here; `None` for every other module."""
        if today(fullname) is None:
            return None
        return spec_from_loader(fullname, self, is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        """Whether an old name is that of a package."""
        return fullname.removeprefix("armillary.") in _PACKAGES

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of today into the place of the old one."""
        name = module.__name__
        new = today(name)
        if new:
            warnings.warn(f"{name} is now {new}", DeprecationWarning, stacklevel=2)
            sys.modules[name] = _loaded(name, new)

    def get_source(self, fullname: str) -> str:
        """The program that `python -m` runs."""
        return f"from armillary import _moved\n_moved.run({fullname!r})\n"


def run(name: str) -> None:
    """Runs the module of today as a program. Ends with 2 where its package is not installed."""
    new = today(name) or ""
    command = new.removesuffix(".__main__")
    sys.stderr.write(
        f"warning: python -m {name.removesuffix('.__main__')} is now python -m {command}\n"
    )
    try:
        _loaded(name, new.partition(".")[0])
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"error: {missing}\n")
        raise SystemExit(2) from None
    runpy.run_module(new, None, "__main__", alter_sys=True)


def _loaded(name: str, new: str) -> ModuleType:
    """A module of today. Raises `ModuleNotFoundError` with a way out where its package is not
    installed."""
    try:
        return importlib.import_module(new)
    except ModuleNotFoundError as missing:
        package = new.partition(".")[0]
        if missing.name != package:
            raise
        text = f"{name} is now in the package {package.replace('_', '-')}, which is not installed"
        raise ModuleNotFoundError(text, name=name) from None


def serve() -> None:
    """Lets imports find old names."""
    if not any(isinstance(each, OldNames) for each in sys.meta_path):
        sys.meta_path.insert(0, OldNames())
