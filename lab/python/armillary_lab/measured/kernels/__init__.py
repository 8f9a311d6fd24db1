"""Measured kernels of the package.

`data/` has tables of ai-dynamo/aiconfigurator, systems/data at 095f58a5, Apache-2.0, a random
sample. Not here: reading tables (`armillary.kernels.tables`), what we predict, its errors
(`score.kernels`) and fits (`fit.kernels`)."""

from __future__ import annotations

from importlib import resources

from armillary.kernels.tables import Measured, Table, parse


def shipped(table: Table) -> list[Measured]:
    """The kernels of a table of the package."""
    file = resources.files(__package__) / "data" / f"{table.name}.csv.gz"
    found = parse(str(file), file.read_bytes(), (table,))
    return [row for row in found if isinstance(row, Measured)]
