"""The documentation site: it builds, a broken page fails the build, and it asks no other host for anything."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from pages import ROOT

from support.browser import browser
from support.environments import installed_python
from traceforge import __version__
from traceforge.audit.rule_catalogue import RULES
from traceforge.errors import all_errors

SOURCES = ("docs", "changelog.d", "examples/README.md", "tools/site.py", "src/traceforge/__init__.py")


def _load_builder() -> ModuleType:
    specification = spec_from_file_location("site_builder", ROOT / "tools" / "site.py")
    assert specification
    assert specification.loader
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _copy_sources(folder: Path) -> None:
    for name in (*SOURCES, *(path.name for path in ROOT.glob("*.md")), "mkdocs.yml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        else:
            shutil.copy(ROOT / name, folder / name)


def _build(folder: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [installed_python("site"), folder / "tools" / "site.py", target]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    process = _build(ROOT, folder)
    assert 0 == process.returncode, process.stdout + process.stderr
    return folder


def test_the_site_builds_with_every_page_and_its_version(site: Path) -> None:
    """The builder refuses a broken link or anchor, a page without a menu entry, and a resource of another host."""
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site / __version__).parent.as_posix() for path in site.glob("*/**/index.html")}
    addresses = {
        page.removesuffix("README.md").removesuffix("index.md").removesuffix(".md").strip("/") for page in pages
    }

    assert set() == {address or "." for address in addresses} - built
    assert [[__version__, ["latest"]]] == [
        [entry["version"], entry["aliases"]] for entry in json.loads((site / "versions.json").read_text())
    ]
    assert f'href="{__version__}/"' in (site / "index.html").read_text()


def test_every_error_code_and_rule_has_a_page_that_search_finds(site: Path) -> None:
    """Once: not in the list too. The list keeps the anchors that other pages link to."""
    index = json.loads((site / __version__ / "search.json").read_text())
    codes = {error.code: f"reference/errors/{error.code.lower()}/" for error in all_errors()}
    codes |= {rule: f"reference/rules/{rule.lower()}/" for rule in RULES}

    assert codes == {entry["title"]: entry["location"] for entry in index["items"] if entry["title"] in codes}
    lists = {
        name: (site / __version__ / "reference" / name / "index.html").read_text() for name in ("errors", "rules")
    }
    assert [] == [
        code for code, address in codes.items() if f' id="{code.lower()}"' not in lists[address.split("/")[1]]
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "text", "message"),
    [
        ("docs/index.md", "[gone](how-to/gone.md)", "page does not exist"),
        ("docs/index.md", "[gone](how-to/redact.md#gone)", "anchor does not exist"),
        ("docs/how-to/new.md", "# A new page", "mkdocs.yml has no menu entry for: how-to/new.md"),
        ("docs/index.md", '<img src="https://example.com/a.png">', "index.html loads https://example.com/a.png"),
    ],
)
def test_a_broken_page_fails_the_build(page: str, text: str, message: str, tmp_path: Path) -> None:
    _copy_sources(tmp_path)
    with (tmp_path / page).open("a") as file:
        file.write(f"\n{text}\n")

    process = _build(tmp_path, tmp_path / "site")

    assert 0 != process.returncode
    assert message in process.stdout + process.stderr


def test_pages_are_changed_for_the_site_only_where_it_needs_that(tmp_path: Path) -> None:
    """A fence gets its file as title, links to pages of the root follow them, and code is left alone."""
    builder = _load_builder()

    builder.stage_pages(tmp_path / "pages")

    page = (tmp_path / "pages" / "how-to" / "gate-openai.md").read_text()
    assert '```python title="mails.py"\n' in page
    assert "(../project/examples.md#the-model-server)" in page
    assert [] == builder.pages_without_menu(tmp_path / "pages")


def test_versions_stand_beside_each_other_newest_first(tmp_path: Path) -> None:
    builder = _load_builder()
    for version in ("0.9.0", "0.10.0", "0.2.1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()

    builder.list_versions(tmp_path, "0.10.0")

    entries = json.loads((tmp_path / "versions.json").read_text())
    assert [("0.10.0", ["latest"]), ("0.9.0", []), ("0.2.1", [])] == [
        (entry["version"], entry["aliases"]) for entry in entries
    ]


def test_a_line_ends_where_a_word_can_still_be_read() -> None:
    """An option that is cut at its first hyphen reads as a hyphen. Blocks, and words too long for a line, stay."""
    builder = _load_builder()
    block = "<pre><span></span><code>pytest --traceforge=off\n</code></pre>"
    long_word = f"<code>{'a-' * 20}</code>"

    assert '<code>run <span class="whole">--debug</span></code>' == builder.keep_words_whole(
        "<code>run --debug</code>"
    )
    assert '<span class="md-typeset">a.<wbr>B</span>' == builder.keep_words_whole(
        '<span class="md-typeset">a.B</span>'
    )
    assert (block, long_word) == (builder.keep_words_whole(block), builder.keep_words_whole(long_word))


def test_a_diagram_becomes_a_list() -> None:
    """Drawing it would take a script of another host."""
    builder = _load_builder()
    sequence = "```mermaid\nsequenceDiagram\n  participant App as application\n  participant Hook as hook\n"
    sequence += "  App->>Hook: request\n  Hook-->>App: response\n```"
    flow = '```mermaid\nflowchart BT\n  subgraph call [One call]\n    wire["wire<br/>bytes"]\n  end\n```'

    assert "1. **application** → **hook**: request\n1. **hook** → **application**: response" == builder.list_diagram(
        sequence
    )
    assert "- **One call**\n    - wire: bytes" == builder.list_diagram(flow)
    assert "```text\na\n```" == builder.list_diagram("```text\na\n```")


def test_every_way_to_load_a_resource_of_another_host_is_reported(tmp_path: Path) -> None:
    """Links that a reader may follow are not loaded."""
    builder = _load_builder()
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="https://a.example/a.css"><script src="//b.example/b.js"></script>'
        '<p style="background: url(https://c.example/c.png)"><img srcset="https://d.example/d.png 2x">'
        '<a href="https://e.example/">e</a><img src="images/f.png"><object data="http://g.example/g.svg"></object>'
    )
    (tmp_path / "b.css").write_text('@import "https://h.example/h.css"; p { background: url("//i.example/i.png") }')

    hosts = [url.split("/")[2] for _, url in builder.resources_of_other_hosts(tmp_path)]

    assert ["a", "b", "c", "d", "g", "h", "i"] == [host.split(".")[0] for host in sorted(hosts)]


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@pytest.mark.slow
def test_the_site_works_in_a_browser_without_another_host(site: Path, tmp_path: Path) -> None:
    """On a phone and on a desk, light and dark: the page fits, and search finds a page."""

    async def visit(url: str) -> tuple[list[int], list[str], list[str], set[str]]:
        overflow, colours = [], []
        async with browser(tmp_path / "profile") as page:
            for width in (360, 1440):
                for scheme in ("light", "dark"):
                    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
                    await page.call("Emulation.setDeviceMetricsOverride", **size)
                    preference = {"name": "prefers-color-scheme", "value": scheme}
                    await page.call("Emulation.setEmulatedMedia", features=[preference])
                    await page.open(url)
                    await page.eval("localStorage.clear()")
                    await page.call("Page.reload")
                    await page.until("document.readyState === 'complete'")
                    overflow.append(await page.eval("Math.max(0, document.documentElement.scrollWidth - innerWidth)"))
                    colours.append(await page.until("document.body.getAttribute('data-md-color-scheme')"))
            await page.click(".md-search__button")
            await page.type("langchain")
            while ("option", "Gate an application on LangChain") not in await page.tree():
                await asyncio.sleep(0.05)
            return (
                overflow,
                colours,
                [str(problem) for problem in page.problems()],
                {urlsplit(request["url"]).netloc for request in page.requests() if request["url"].startswith("http")},
            )

    with _served(site) as url:
        overflow, colours, problems, hosts = asyncio.run(visit(f"{url}{__version__}/how-to/gate-model-calls/"))

    assert ([0] * 4, ["default", "slate"] * 2) == (overflow, colours)
    assert ([], {urlsplit(url).netloc}) == (problems, hosts)
