"""A headless Chromium of this machine, to look at pages with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Request, ViewportSize, sync_playwright

Scheme = Literal["light", "dark"]
_ARGUMENTS = ["--no-sandbox", "--no-zygote", "--disable-gpu", "--in-process-gpu"]
"""Drawing happens within the browser's process: a page takes a fourth less time."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass
class Visit:
    """A page as a browser shows it, and what it complained about or asked for on the way."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> object:
        """What a JavaScript expression says within the page."""
        return self.page.evaluate(script)


def find() -> str | None:
    """The browser's program, if there is one."""
    found = (shutil.which(name) for name in NAMES)
    return os.environ.get("CHROMIUM") or next((path for path in found if path), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser for several visits; skips the test, saying so, where there is none."""
    program = find()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and CHROMIUM is not set")
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield running
        running.close()


@contextmanager
def visit(
    running: Browser, path: Path, width: int = 1280, scripts: bool = True, scheme: Scheme = "light"
) -> Iterator[Visit]:
    """Opens a file in a window of `width` pixels and waits until its charts are there; `scheme` is
    the system's."""
    size: ViewportSize = {"width": width, "height": 900}
    context = running.new_context(viewport=size, java_script_enabled=scripts, color_scheme=scheme)
    page = context.new_page()
    seen = Visit(page)
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: note(seen, request, path))
    page.goto(path.as_uri())
    if scripts:
        page.wait_for_selector("body[data-ready]", state="attached")
    yield seen
    context.close()


def resize(seen: Visit, width: int) -> None:
    """Makes the window `width` pixels wide, and waits until it has been drawn so."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    seen.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def note(seen: Visit, request: Request, path: Path) -> None:
    """Keeps every address asked for but the page's own and what lies within it."""
    if request.url != path.as_uri() and not request.url.startswith(("data:", "blob:")):
        seen.requests.append(request.url)
