"""A real browser for the tests of pages: Debian's Chromium, without a sandbox and without calls of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need Chromium"),
    pytest.mark.xdist_group("browser"),
]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that is closed at the end."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # a busy machine may take its time
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def page_without_trouble(browser: Any, address: str, **window: Any) -> Iterator[Any]:
    """A page in a window; any request to elsewhere, error or message of the browser fails the test."""
    opened = browser.new_page(**window)
    troubles: list[str] = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on(
        "request",
        lambda request: (
            troubles.append(request.url) if not request.url.startswith(("data:", "blob:", address)) else None
        ),
    )
    opened.goto(address)
    yield opened
    opened.close()
    assert troubles == []
