"""Headless Chromium from Debian's package, and a page that notes what must not happen."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARTEFACTS = Path(__file__).parent.parent.parent / "test-artefacts"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds: the machine may have other work


@contextmanager
def launched() -> Iterator[Any]:
    """The browser, or a skip that says what to install."""
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium: apt-get install chromium (as .ci/run does)")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """An open report: `page` of Playwright, and whatever went wrong in it."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, **settings: Any):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.path, self.wrong = path, []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.goto(path.as_uri())
        if settings.get("java_script_enabled", True):
            self.page.wait_for_selector("body[data-ready=yes]", state="attached")
            self.page.wait_for_timeout(200)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Any) -> None:
        if request.url != self.path.as_uri() and not request.url.startswith("data:"):
            self.wrong.append(f"request: {request.url}")

    def text(self, selector: str) -> str:
        """The text of an element."""
        return self.page.inner_text(selector)

    def model(self, name: str, expression: str) -> Any:
        """A property of one of Bokeh's models in the page: `expression` of `m`."""
        return self.page.evaluate(
            "(name) => { const m = Bokeh.documents[0].get_model_by_name(name);"
            f"return {expression} }}",
            name,
        )

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag over an element, from and to shares of its size."""
        self.page.locator(selector).scroll_into_view_if_needed()
        box = self.page.locator(selector).bounding_box()
        points = [
            (box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)
        ]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        self.page.mouse.move(*points[1], steps=4)
        self.page.mouse.up()
        self.page.wait_for_timeout(150)

    def shot(self, name: str) -> None:
        """Keep a picture of the whole page among the artefacts of the tests."""
        ARTEFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=True)

    def close(self) -> None:
        """Close it, and fail if anything went wrong."""
        self.context.close()
        assert self.wrong == []
