"""Headless Chromium, controlled over its DevTools protocol.

Keys and clicks go through the browser's input, and a test reads the page that the browser shows. Nothing is stubbed.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

SECONDS_MAX = 20.0
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
    "--disable-dev-shm-usage", "--remote-debugging-port=0", "--window-size=900,1000", "--lang=en",
)  # fmt: skip
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), " ": (32, " "), "Escape": (27, "")}


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self._read_engine = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            body = message.json()
            if "id" in body:
                self._answers.pop(body["id"]).set_result(body)
            else:
                self.events.append(body)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a DevTools method and return its result."""
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        reply = await asyncio.wait_for(answer, SECONDS_MAX)
        assert "error" not in reply, (method, reply)
        result: dict[str, Any] = reply["result"]
        return result

    async def open(self, url: str) -> None:
        """Load a page and wait until it is complete."""
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def eval(self, script: str) -> Any:
        evaluation = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in evaluation, evaluation
        return evaluation["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true."""
        deadline = asyncio.get_running_loop().time() + SECONDS_MAX
        while not (value := await self.eval(script)):
            assert asyncio.get_running_loop().time() < deadline, f"never true: {script}"
            await asyncio.sleep(0.02)
        return value

    async def type(self, text: str) -> None:
        """Type a text into the focused element."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *, shift: bool = False) -> None:
        code, text = KEYS[key]
        key_event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **key_event)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **key_event)

    async def click(self, selector: str) -> None:
        """Click into the middle of an element."""
        place = await self.eval(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            mouse_event = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
            await self.call("Input.dispatchMouseEvent", type=kind, **mouse_event)

    async def choose_file(self, selector: str, path: Path) -> None:
        """Click a button that opens a file chooser, and choose a file."""
        await self.call("Page.setInterceptFileChooserDialog", enabled=True)
        before = len(self.events)
        await self.click(selector)
        deadline = asyncio.get_running_loop().time() + SECONDS_MAX
        while True:
            opened = [event for event in self.events[before:] if event["method"] == "Page.fileChooserOpened"]
            if opened:
                break
            assert asyncio.get_running_loop().time() < deadline, "no file chooser was opened"
            await asyncio.sleep(0.02)
        node = opened[0]["params"]["backendNodeId"]
        await self.call("DOM.setFileInputFiles", files=[str(path)], backendNodeId=node)

    async def screenshot(self, path: Path, *, whole_page: bool = True) -> None:
        """Save the page, or what the window shows of it; `.webp` is smaller than `.png`."""
        options: dict[str, Any] = {"format": "webp", "quality": 85} if path.suffix == ".webp" else {"format": "png"}
        screenshot = await self.call("Page.captureScreenshot", captureBeyondViewport=whole_page, **options)
        path.write_bytes(base64.b64decode(screenshot["data"]))

    async def tree(self) -> list[tuple[str, str]]:
        """The accessibility tree of a screen reader: roles and names, in order."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"] and node["role"]["value"] not in ("StaticText", "InlineTextBox", "none", "generic")
        ]

    def problems(self) -> list[dict[str, Any]]:
        """Errors of scripts, of loading and of the content policy."""
        bad = ("Runtime.exceptionThrown", "Network.loadingFailed")
        entries = [event for event in self.events if event["method"] == "Log.entryAdded"]
        return [event for event in self.events if event["method"] in bad] + [
            entry for entry in entries if entry["params"]["entry"]["level"] == "error"
        ]

    def requests(self) -> list[dict[str, Any]]:
        """Every request that the page has made."""
        return [event["params"]["request"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    async def close(self) -> None:
        self._read_engine.cancel()
        await self._socket.close()


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Page]:
    """Run a browser with an empty profile for the duration of a test."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("chromium is not on PATH: `make chromium` installs it", pytrace=False)
    profile.mkdir()
    command = [chromium, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        async with aiohttp.ClientSession() as session:
            port = await _port(profile)
            async with session.get(f"http://127.0.0.1:{port}/json/list") as listed:
                target = next(page_info for page_info in await listed.json() if page_info["type"] == "page")
            page = Page(await session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0))
            try:
                yield page
            finally:
                await page.close()
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _port(profile: Path) -> int:
    path = profile / "DevToolsActivePort"
    deadline = asyncio.get_running_loop().time() + SECONDS_MAX
    while not (path.exists() and path.read_text().count("\n")):
        assert asyncio.get_running_loop().time() < deadline, "Chromium did not start"
        await asyncio.sleep(0.05)
    return int(path.read_text().split("\n")[0])
