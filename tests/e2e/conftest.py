"""One real instance and one real browser for all browser tests."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.support.instance import Instance, healthy_instance
from tests.support.instances.secure import SecureInstance, secure_instance
from tests.support.life.life import Life, living_instance

PROVOKED = (
    r"(gateway|worker) ended \(signal 9\)",
    r"alert not delivered delivery=\d+: 127\.0\.0\.1 cannot be connected to",
    r"gateway\.jobs\.tasks ending this process: run \w+ does not end",
    r"Task handler raised error: WorkerLostError",
)
"""Log lines of processes that a test kills to check that the console recovers, of a receiver of alerts that has ended
with its test, and of a run that a test cancels."""
PATIENCE_MS = 60_000
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# A busy machine delays what a page shows in the end; it must not fail a test.
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    local = {"MAGNETAR_ALERT_DESTINATIONS": "127.0.0.1"}
    with healthy_instance(tmp_path_factory.mktemp("e2e"), PROVOKED, **local) as healthy:
        yield healthy


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """An instance with traffic, for tests of what pages show."""
    # Only the incidents of ``make incidents`` kill the functions worker.
    is_whole = os.environ.get("INCIDENTS") == "all"
    settings = {"MAGNETAR_FUNCTIONS_WORKER_ENABLED": "true"} if is_whole else {}
    with living_instance(tmp_path_factory.mktemp("life"), **settings) as lively:
        yield lively


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureInstance]:
    """An instance whose people sign in, for ``SECURE_FILES``; the first of them creates the first person."""
    with secure_instance(tmp_path_factory.mktemp("secure")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        browser_process = playwright.chromium.launch(
            executable_path=executable,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
            ],
        )
        yield browser_process
        browser_process.close()


class Window:
    """A context of the browser and its page, which tests of one console use one after the other.

    A new context costs two seconds of a processor: a process, and all scripts compiled again. ``restore`` removes
    what a test left. Motion is reduced, so that no click waits for a transition.
    """

    def __init__(self, browser: Browser, base_url: str) -> None:
        self.context = browser.new_context(
            base_url=base_url, viewport=VIEWPORT, reduced_motion="reduce"
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        self.page.on("console", self._record)

    def _record(self, line: ConsoleMessage) -> None:
        # Chromium logs refused calls as errors, too; the page has to show those itself.
        of_api = line.text.startswith("Failed to load") and "/api/v1/" in line.location["url"]
        if line.type == "error" and not of_api:
            self.problems.append(f"console: {line.text}")

    def restore(self) -> None:
        """Close other pages and forget everything stored. Raises ``Error`` when the page cannot be used again."""
        for other in self.context.pages:
            if other is not self.page:
                other.close()
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.set_viewport_size(VIEWPORT)
        self.page.mouse.move(0, 0)
        self.context.clear_cookies()
        self.problems.clear()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Iterator[dict[str, Window]]:
    """Windows that no test uses now, by the address of their console."""
    unused: dict[str, Window] = {}
    yield unused
    for window in unused.values():
        window.context.close()


@pytest.fixture
def window(
    request: pytest.FixtureRequest, browser: Browser, windows: dict[str, Window]
) -> Iterator[Window]:
    """A window of the instance with traffic for tests that use ``life``, else of the one without."""
    if "life" in request.fixturenames:
        base_url = request.getfixturevalue("life").instance.http
    else:
        base_url = request.getfixturevalue("instance").http
    used = windows.pop(base_url, None) or Window(browser, base_url)
    yield used
    try:
        used.restore()
    except Error:  # the page shows no console, or it ended
        used.context.close()
    else:
        windows[base_url] = used


@pytest.fixture
def context(window: Window) -> BrowserContext:
    return window.context


@pytest.fixture
def page(window: Window) -> Iterator[Page]:
    """A page that fails its test on an uncaught error or a console error of our own scripts."""
    yield window.page
    assert window.problems == []


@pytest.fixture(scope="session")
def axe_source() -> str:
    path = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text()
