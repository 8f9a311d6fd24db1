"""Links on the site: within docs/ as they are, to documents of the root, and to nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is installed by `make docs` only")

import site_links


@pytest.mark.parametrize(
    ("page", "link", "found"),
    [
        ("guides/sweep.md", "../models/libraries.md", "../models/libraries.md"),
        ("guides/sweep.md", "../../COMPARE.md", "../house/COMPARE.md"),
        ("index.md", "../ARCHITECTURE.md", "house/ARCHITECTURE.md"),
        ("house/ARCHITECTURE.md", "DESIGN.md", "DESIGN.md"),
        ("house/ARCHITECTURE.md", "docs/models/memory.md", "../models/memory.md"),
        ("guides/sweep.md", "../images/run-light.png", "../images/run-light.png"),
        ("reference/limits.md", "../../fuzz/README.md", None),
        ("house/CONTRIBUTING.md", "LICENSE", None),
    ],
)
def test_where_a_link_leads(page: str, link: str, found: str | None) -> None:
    assert site_links.target(link, page) == found
