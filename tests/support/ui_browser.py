"""Pages of the web view in Chromium: at a width, in a theme, with a screenshot.

With UI_SCREENSHOTS, pictures go to that folder, otherwise to the folder of the test.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.browser import Page, browser

WIDE, NARROW = 1440, 360


class UiPage:
    """A tab that is signed in."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.tab = page
        self._pictures = Path(os.environ.get("UI_SCREENSHOTS") or folder / "pictures")

    async def resize(self, width: int, height: int = 900) -> None:
        await self.tab.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

        await self.tab.call("Emulation.setScrollbarsHidden", hidden=True)  # They would cover the right edge.

    async def prefer(self, scheme: str) -> None:
        """What the system of the user prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.tab.call("Emulation.setEmulatedMedia", features=features)

    async def go(self, url: str) -> None:
        """Load another page, as a user who types its address does."""
        await self.tab.call("Page.navigate", url=url)
        await self.tab.until(f"document.readyState === 'complete' && location.href.startsWith({url!r})")

    async def arrive(self, condition: str) -> None:
        """Wait until the next page is there and loaded: its path is up to date before its document is."""
        await self.tab.until(f"document.readyState === 'complete' && ({condition})")

    async def key(self, key: str) -> None:
        """Press a key that types a character."""
        await self.tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def picture(self, name: str) -> None:
        """Save a screenshot of what the window shows."""
        self._pictures.mkdir(parents=True, exist_ok=True)
        await self.tab.screenshot(self._pictures / f"{name}.png")

    async def check_layout(self) -> None:
        """The page has no horizontal scrolling."""
        assert not await self.tab.eval("document.documentElement.scrollWidth > innerWidth"), "the page is too wide"

    async def text(self, selector: str) -> str:
        value: str = await self.tab.eval(f"document.querySelector({selector!r})?.textContent ?? ''")
        return " ".join(value.split())


def visit(folder: Path, url: str, work: Callable[[UiPage], Awaitable[None]]) -> None:
    """Open an address, run `work` on its page, and check that no page logged an error."""

    async def run() -> None:
        async with browser(folder / "profile") as tab:
            page = UiPage(tab, folder)
            await page.resize(WIDE)
            await tab.open(url)
            await work(page)
            assert [] == tab.problems()

    asyncio.run(run())
