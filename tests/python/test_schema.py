"""The types and the JSON Schema of a report describe real reports.

That they are those of the Rust structs is a test of `crates/generate`."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from conftest import ROOT

import armillary as arm
from armillary import schema, step_parts


@pytest.fixture(scope="module")
def simulated() -> Any:  # noqa: ANN401
    """A report of this version, with detail."""
    example = ROOT / "examples/gpt-64"
    workload = arm.load(example, groups=example / "comm_group.json")
    platform = arm.Platform.load(example / "platform.yml")
    return json.loads(arm.simulate(workload, platform, detail=True).to_json())


def mismatches(value: Any, kind: Any, at: str) -> list[str]:  # noqa: ANN401
    """Places where `value` has other fields, or other kinds of values, than the type."""
    if kind is Any or get_origin(kind) is dict:
        return []
    if is_typeddict(kind):
        fields = get_type_hints(kind)
        if list(value) != list(fields):
            return [f"{at}: {sorted(set(value) ^ set(fields)) or 'order'}"]
        return [
            found
            for name, inner in fields.items()
            for found in mismatches(value[name], inner, f"{at}.{name}")
        ]
    if get_origin(kind) is list:
        return [
            f for i, v in enumerate(value) for f in mismatches(v, get_args(kind)[0], f"{at}[{i}]")
        ]
    if type(None) in get_args(kind):
        [inner] = set(get_args(kind)) - {type(None)}
        return [] if value is None else mismatches(value, inner, at)
    allowed = (int, float) if kind is float else kind
    return [] if isinstance(value, allowed) else [f"{at}: {value!r} is not {kind.__name__}"]


def test_a_report_has_the_fields_of_its_types_in_their_order(simulated: Any) -> None:  # noqa: ANN401
    assert mismatches(simulated, schema.Report, "report") == []
    assert simulated["detail"]["collectives"], "every section has rows"


def test_a_missing_field_is_a_mismatch(simulated: Any) -> None:  # noqa: ANN401
    wrong = {**simulated, "bounds": {"dimension_ns": 1.0}}
    assert mismatches(wrong, schema.Report, "report") == ["report.bounds: ['network_ns']"]


def test_a_report_is_valid_by_the_json_schema(simulated: Any) -> None:  # noqa: ANN401
    jsonschema = pytest.importorskip("jsonschema")
    text = (ROOT / "python/armillary/report.schema.json").read_text(encoding="utf-8")
    validator = jsonschema.Draft202012Validator(json.loads(text))
    validator.check_schema(validator.schema)
    validator.validate(simulated)
    assert not validator.is_valid({**simulated, "ranks": "many"})


def test_parts_sum_to_the_step(simulated: Any) -> None:  # noqa: ANN401
    for each in simulated["classes"]:
        parts = [each[part.field] for part in step_parts.PARTS]
        assert sum(parts) == pytest.approx(simulated["step_time_ns"], rel=1e-12)
