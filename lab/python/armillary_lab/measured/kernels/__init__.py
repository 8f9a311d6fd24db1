"""Measured kernels of the package.

`data/` has tables of ai-dynamo/aiconfigurator, systems/data at 095f58a5, Apache-2.0: of exchanges
of experts all rows, of others a random sample. Not here: reading tables
(`armillary.kernels.tables`), what we predict, its errors (`score.kernels`) and fits
(`fit.kernels`)."""

from __future__ import annotations

from importlib import resources

from armillary.kernels import Combine, Dispatch
from armillary.kernels.tables import Measured, Table, parse

_FILES = {
    "dispatch_ll": "deepep_ll",
    "combine_ll": "deepep_ll",
    "dispatch_normal": "deepep_normal",
    "combine_normal": "deepep_normal",
}
"""Files of tables that are not of the same name."""


_FAR = 32
"""Ranks on 4 nodes of 8."""


def shipped(table: Table) -> list[Measured]:
    """The kernels of a table of the package."""
    file = resources.files(__package__) / "data" / f"{_FILES.get(table.name, table.name)}.csv.gz"
    found = parse(str(file), file.read_bytes(), (table,))
    return [row for row in found if isinstance(row, Measured)]


def congested(row: Measured) -> bool:
    """Whether a row is of DeepEP's normal kernels on 8 nodes. They got 15 of the network's 50 GB/s,
    while low-latency kernels on the same nodes got 44, and DeepEP publishes 45 for normal kernels
    on 8 nodes. So these times are of that network's paths, and fits leave them out."""
    shape = row.shape
    if not isinstance(shape, Dispatch | Combine):
        return False
    return shape.backend == "deepep_normal" and shape.ep > _FAR
