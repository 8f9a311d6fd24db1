"""What axe-core finds wrong with a page for people who see or move otherwise."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

GRAVE = {"serious", "critical"}


def violations(page: Page, contrast: bool = True) -> list[str]:
    """Serious and critical findings: rule, what it asks for, and the first elements that break
    it. `contrast` takes most of the time. It follows from the scheme, so it is enough to ask for it
    at one width."""
    options = {
        "resultTypes": ["violations"],
        "rules": {"color-contrast": {"enabled": contrast}},
    }
    found: list[dict[str, Any]] = Axe().run(page, options=options).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        f"{[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in GRAVE
    ]
