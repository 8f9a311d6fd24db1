"""Studies E1 to E5: the paper's numbers as printed, and what ours must hold. Whole steps of 128
GPUs are in `lab/numbers/test_slow_studies.py`."""

from __future__ import annotations

import pytest
from documented import quality_rows, study_rows

from armillary.model.dlrm import parse
from armillary.model.messages import FORMATS, Messages
from armillary_lab.studies import neo, neo_memory, neo_messages


@pytest.mark.parametrize("name", ["dlrm-neo-a", "dlrm-neo-f", "dlrm-neo-i"])
def test_drawn_tables_have_the_printed_sums(name: str) -> None:
    """Table 3: parameters, number of tables, their widths and the mean of lookups."""
    whole = neo.facts(name)
    for seed in neo.SEEDS:
        found = parse(neo.drawn(name, seed))
        assert [each.dim for each in found.tables] == [each.dim for each in whole.tables]
        assert found.parameters == pytest.approx(whole.parameters, rel=1e-3)
        lookups = [each.pooling for each in found.tables]
        assert sum(lookups) == sum(each.pooling for each in whole.tables)
        assert min(lookups) >= 1
        assert len(set(lookups)) > 1
    assert neo.drawn(name, 0).fields == neo.drawn(name, 0).fields
    assert neo.drawn(name, 0).fields != neo.drawn(name, 1).fields


def test_model_f_needs_96_and_24_terabytes() -> None:
    """Section 8.5: 12e12 x 4 x 2 bytes; half of the width and a state for each row."""
    assert neo_memory._terabytes(neo_memory.NAIVE) == pytest.approx(96, rel=1e-3)
    assert neo_memory._terabytes(neo_memory.SMALLER) == pytest.approx(24, rel=0.01)


def test_presets_reach_the_rates_of_appendix_a() -> None:
    """Within 5 %: simulated kernels and messages have overheads in addition."""
    for row in study_rows("neo-benchmarks"):
        if row.reference.value is not None:
            assert row.ratio == pytest.approx(1, abs=0.05), row.setup


def test_messages_are_tried_in_every_exchange_and_format() -> None:
    """The first run is the paper's; half of the tables have a reduce-scatter."""
    found = [Messages.parse(text) for text in neo_messages.RUNS.values()]
    assert (found[0].forward, found[0].backward) == ("fp16", "bf16")
    for name in Messages.__slots__:
        assert {getattr(each, name) for each in found} >= {"fp32", "int8", "fp8"}
    assert {format_ for each in found for format_ in (each.forward, each.backward)} == set(FORMATS)
    schemes = [table.scheme for table in neo_messages._plan().tables]
    assert abs(schemes.count("row") - schemes.count("table")) <= 1


@pytest.mark.xdist_group("quality")
def test_the_study_compares_with_the_asynchronous_run() -> None:
    """With so few samples, the fewer steps of larger batches learn less."""
    pytest.importorskip("torch")
    found = {row.setup: row for row in quality_rows()}
    above = [row.ours for row in found.values() if row.unit == "NE"]
    assert len(above) == 3 and min(above) > 0
    against = [row for row in found.values() if row.unit == "%"]
    assert [row.ours for row in against] == sorted(row.ours for row in against)
    assert [row.verdict for row in against] == [None, "fails"]
