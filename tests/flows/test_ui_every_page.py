"""Every page of the web view in Chromium, over a project that has something for each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.axe import find_violations, read_axe
from support.full_project import ROUTES, FullProject, make_full_project, name_of, post_build
from support.hostile_page import HOSTILE_WORDS, SECRET, TITLE_TAKEN, check_page, list_active_elements
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import RunningUi, run_ui
from traceforge.ui.page_context import PageRoute
from traceforge.ui.ui_server import AREAS

THEMES = ("light", "dark")
WIDEST = 2560
# The ring is on the element, or a row of a list is marked as a whole.
HAS_FOCUS_RING = """(() => {
  const element = document.activeElement;
  const row = element.closest("[data-item]");
  return element.matches(":focus-visible") && (
    getComputedStyle(element).outlineStyle !== "none" || (row && getComputedStyle(row).boxShadow !== "none")
  );
})()"""
OTHER_ORDER = """document.querySelectorAll('[tabindex]:not([tabindex="0"], [tabindex="-1"])').length"""
STATUS = "performance.getEntriesByType('navigation')[0].responseStatus"
RESOURCE_FAILED = "Failed to load resource"  # The console says so of a page of an error, too.


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> FullProject:
    return make_full_project(tmp_path_factory.mktemp("full"))


@pytest.fixture
def ui(project: FullProject) -> Iterator[RunningUi]:
    with run_ui(project.folder) as running:
        yield running


async def check_every_page(
    page: UiPage, ui: RunningUi, paths: Sequence[str], widths: Sequence[int], themes: Sequence[str] = THEMES[:1],
    status: int | None = None,
) -> None:  # fmt: skip
    """Each page is a page, does not scroll sideways, and runs nothing that is not ours."""
    for theme in themes:
        await page.prefer(theme)
        for path in paths:
            await page.go(ui.origin + path)
            if status is not None:
                assert status == await page.tab.eval(STATUS), path
            for width in widths:
                await page.resize(width)
                assert not await page.tab.eval("document.documentElement.scrollWidth > innerWidth"), (path, width)
            assert TITLE_TAKEN != await page.tab.eval("document.title"), path
    page.tab.events = [event for event in page.tab.events if RESOURCE_FAILED not in str(event)]


def test_every_page_is_shown_on_a_narrow_screen(project: FullProject, ui: RunningUi, tmp_path: Path) -> None:
    """Quick: each kind of page once. A new page needs an address in `support/full_project.py`."""
    assert set(ROUTES) == set(project.addresses)
    shown = [path for path in project.addresses.values() if path in project.pages.values()]

    async def work(page: UiPage) -> None:
        await check_every_page(page, ui, shown, [NARROW], status=200)

    visit(tmp_path, ui.sign_in_url, work)


@pytest.mark.slow
def test_every_page_fits_every_screen_in_both_themes(project: FullProject, ui: RunningUi, tmp_path: Path) -> None:
    """With a picture of each for whoever looks at the run."""

    async def work(page: UiPage) -> None:
        await check_every_page(page, ui, list(project.pages.values()), [NARROW, 768, WIDE, WIDEST], THEMES)
        for theme in THEMES:
            await page.prefer(theme)
            for width in (NARROW, WIDE, WIDEST):
                await page.resize(width)
                for name, path in project.pages.items():
                    await page.go(ui.origin + path)
                    await page.picture(f"{name}-{theme}-{width}")
        page.tab.events = [event for event in page.tab.events if RESOURCE_FAILED not in str(event)]

    visit(tmp_path, ui.sign_in_url, work)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_serious_on_any_page(
    project: FullProject, ui: RunningUi, tmp_path: Path, theme: str
) -> None:
    """WCAG 2.1 AA, by axe-core."""
    script = read_axe()
    found: dict[str, list[str]] = {}

    async def work(page: UiPage) -> None:
        await page.prefer(theme)
        for path in project.pages.values():
            await page.go(ui.origin + path)
            violations = await find_violations(page, script)
            if violations:
                found[path] = violations
        page.tab.events.clear()

    visit(tmp_path, ui.sign_in_url, work)

    assert {} == found


@pytest.mark.slow
def test_hostile_words_are_inert_on_every_page(tmp_path: Path) -> None:
    """In every string: of traces, sessions, changes, approvals, live checks, evidence, context and builds."""
    project = make_full_project(tmp_path / "hostile", HOSTILE_WORDS)
    with run_ui(project.folder) as ui:
        for path in [*project.addresses.values(), *project.states.values()]:
            check_page(ui, path)
        assert [] == list_active_elements(post_build(ui, HOSTILE_WORDS))

        async def work(page: UiPage) -> None:
            await check_every_page(page, ui, list(project.pages.values()), [NARROW, WIDE])

        visit(tmp_path, ui.sign_in_url, work)


def test_a_secret_is_on_no_page(tmp_path: Path) -> None:
    """A key in every string, also of the context store, which keeps what it got. Addresses name files as they are."""
    project = make_full_project(tmp_path / "keys", SECRET)
    with run_ui(project.folder) as ui:
        paths = [*project.addresses.values(), *project.states.values()]
        pages = {path: ui.http.get(path, follow_redirects=True).text for path in paths}

    texts = {path: re.sub(r'\s(?:href|id)="[^"]*"', "", page) for path, page in pages.items()}

    assert [] == [path for path, text in texts.items() if SECRET in text]
    assert "[REDACTED" in pages[project.addresses["/context/branches/{branch_id}"]]


@pytest.mark.slow
def test_every_shared_file_opens_from_the_disk(tmp_path: Path) -> None:
    """Every page that offers itself as a file, with hostile words and a secret: no request, no script, no error."""
    project = make_full_project(tmp_path / "hostile", f"{HOSTILE_WORDS} {SECRET}")
    routes = [page.path for area in AREAS for page in area.pages if isinstance(page, PageRoute) and page.is_shareable]
    files = tmp_path / "files"
    files.mkdir()
    with run_ui(project.folder) as ui:
        for place, route in enumerate(routes):
            response = ui.http.get(f"/share{project.addresses[route]}")
            assert (200, True) == (response.status_code, "attachment" in response.headers["content-disposition"]), (
                route
            )
            assert SECRET not in response.text, route
            assert [] == list_active_elements(response.text), route
            (files / f"{place}.html").write_text(response.text)

    async def work(page: UiPage) -> None:
        for place, route in enumerate(routes):
            await page.go((files / f"{place}.html").as_uri())
            for width in (NARROW, WIDE):
                await page.resize(width)
                assert not await page.tab.eval("document.documentElement.scrollWidth > innerWidth"), (route, width)
            await page.picture(f"shared-{name_of(route)}")
            assert TITLE_TAKEN != await page.tab.eval("document.title"), route
        addresses = [request["url"] for request in page.tab.requests()]
        assert [] == [url for url in addresses if not url.startswith(("file://", "data:image/", "about:"))]

    visit(tmp_path, "about:blank", work)
    assert 11 <= len(routes)


@pytest.mark.slow
def test_words_of_any_length_leave_every_page_bounded(tmp_path: Path) -> None:
    """A name of 100,000 characters: it is cut where it is a name, and folded where it is a text."""
    project = make_full_project(tmp_path / "long", "w" * 100_000)
    with run_ui(project.folder) as ui:
        ui.http.timeout = 600
        for path in project.pages.values():
            check_page(ui, path)


@pytest.mark.slow
def test_keys_reach_everything_in_the_order_of_the_page(project: FullProject, ui: RunningUi, tmp_path: Path) -> None:
    """The first Tab offers to skip the menu; from there on the focus follows the page, and is visible everywhere."""

    async def work(page: UiPage) -> None:
        for path in project.pages.values():
            await page.go(ui.origin + path)
            assert 0 == await page.tab.eval(OTHER_ORDER), path
            await page.tab.press("Tab")
            assert "Skip to content" == await page.tab.eval("document.activeElement.textContent"), path
            await page.tab.press("Enter")
            assert "content" == await page.tab.eval("location.hash.slice(1)"), path
            await page.tab.press("Tab")
            if not await page.tab.eval("document.querySelector('main :is(a[href], button, input)') !== null"):
                continue
            assert await page.tab.eval("document.activeElement.closest('main') !== null"), path
            assert await page.tab.eval(HAS_FOCUS_RING), path
        page.tab.events.clear()

    visit(tmp_path, ui.sign_in_url, work)


@pytest.mark.slow
def test_motion_is_reduced_for_who_asks_for_it(ui: RunningUi, tmp_path: Path) -> None:
    """No animation or transition runs, on any element of a list with a new row."""

    async def work(page: UiPage) -> None:
        await page.tab.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]
        )
        await page.go(f"{ui.origin}/traces")
        await page.tab.eval("document.querySelector('tr[data-item]').classList.add('arrived')")
        assert 0 == await page.tab.eval("document.getAnimations().length")

    visit(tmp_path, ui.sign_in_url, work)
