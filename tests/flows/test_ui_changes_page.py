"""The review queue in a real browser: with the keyboard alone, at two widths, in both themes, with hostile text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.proposals import make_call
from support.review_project import make_review_project
from support.review_queue import make_review_queue
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import run_ui

HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> {{ 7*7 }} ${7*7}\n"
    "\u202eright to left\u200b zero width ' \" <svg onload=document.title='taken'> " + "long" * 400
)

# True once every fold has told that it is open.
OPEN_EVERYTHING = """Promise.all([...document.querySelectorAll("details:not([open])")].map((details) =>
  new Promise((done) => {
    details.addEventListener("toggle", () => done(true), { once: true });
    details.open = true;
  })))"""


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)


def _pending(project: Path) -> list[str]:
    return sorted(file.stem for file in (project / ".ai-tests/pending").glob("*.json"))


def _approvals(project: Path) -> list[dict[str, object]]:
    return [json.loads(file.read_text()) for file in sorted((project / ".ai-snapshots/approvals").glob("*.json"))]


def test_changes_are_approved_and_rejected_with_the_keyboard_alone(tmp_path: Path) -> None:
    """j and k move, x selects, a asks for the reason, Enter approves; r asks, and Enter rejects."""
    project = tmp_path / "shop"
    make_review_project(project)

    async def work(page: UiPage) -> None:
        await page.go(f"{ui.origin}/traces")
        await page.key("g")
        await page.key("c")
        await page.arrive("location.pathname === '/changes'")
        for key in ("j", "j", "x", "j", "x"):
            await page.key(key)
        assert "2 selected" == await page.text("[data-selected-count]")
        await page.picture("changes-selected")
        await page.key("a")
        await page.tab.until("document.activeElement.matches('[data-reason]')")
        await page.tab.type("kinder answers")
        await page.tab.press("Enter")
        await page.tab.until("document.querySelector('.banner.good') !== null && document.readyState === 'complete'")
        assert 4 == len(_pending(project))
        await page.key("j")
        await page.key("r")
        await page.tab.until("document.querySelector('#reject-dialog').open")
        assert 4 == len(_pending(project))
        await page.tab.press("Enter")
        await page.tab.until("document.querySelector('.banner')?.textContent.includes('Rejected 1 change')")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)
    first, second = _approvals(project)

    assert 3 == len(_pending(project))
    assert ("kinder answers", {"name": "Ada Lovelace", "email": "ada@example.org"}) == (
        second["reason"],
        second["approved_by"],
    )
    changes = second["changes"]
    assert isinstance(changes, list)
    assert 2 == len(changes)
    assert [first["hash"]] == second["follows"]


def test_thirty_changes_are_reviewed_with_the_keyboard_alone(tmp_path: Path) -> None:
    """X takes the twelve of one cause, a and Enter approve them; a search finds one, and r rejects it on its page."""
    project = tmp_path / "shop"
    make_review_queue(project)

    async def work(page: UiPage) -> None:
        assert 30 == len(_pending(project))
        await page.key("j")
        await page.key("X")
        assert "12 selected" == await page.text("[data-selected-count]")
        await page.picture("queue-selected")
        await page.key("X")
        assert "Mark the changes, then decide." == await page.text("[data-selected-count]")
        for key in ("X", "a"):
            await page.key(key)
        await page.tab.until("document.activeElement.matches('[data-reason]')")
        await page.tab.type("kinder answers, as agreed")
        await page.tab.press("Enter")
        await page.arrive("document.querySelector('.banner.good') !== null")
        assert 18 == len(_pending(project))
        await page.key("/")
        await page.tab.type("haiku fog")
        await page.tab.press("Enter")
        await page.arrive(
            "location.search.includes('haiku') && document.querySelectorAll('[data-item]').length === 1"
        )
        await page.key("j")
        await page.tab.press("Enter")
        await page.arrive("location.pathname.includes('test_haiku-fog')")
        await page.key("r")
        await page.tab.until("document.querySelector('#reject-dialog').open")
        await page.tab.press("Enter")
        await page.arrive("document.querySelector('.banner')?.textContent.includes('Rejected 1 change')")
        assert await page.tab.eval("location.pathname.startsWith('/changes/test_haiku')")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_at("/changes"), work)
    changes = _approvals(project)[-1]["changes"]

    assert isinstance(changes, list)
    assert 12 == len(changes)
    assert 17 == len(_pending(project))
    assert [] == [name for name in _pending(project) if "test_desk" in name or "haiku-fog" in name]


@pytest.mark.slow
def test_folded_changes_are_reached_with_the_keyboard(tmp_path: Path) -> None:
    """j stops at the fold and Enter opens it; what is folded is no stop."""
    project = tmp_path / "shop"
    make_review_queue(project)
    focused = "document.activeElement.closest('[data-item]').dataset.id ?? document.activeElement.textContent"

    async def work(page: UiPage) -> None:
        for _ in range(4):
            await page.key("j")
        assert "9 more" == await page.tab.eval(focused)
        await page.key("j")
        assert "test_french" in await page.tab.eval(focused)
        await page.key("k")
        await page.tab.press("Enter")
        await page.tab.until("document.querySelector('.change-fold').open")
        await page.key("j")
        assert "test_desk" in await page.tab.eval(focused)

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_at("/changes"), work)


@pytest.mark.slow
def test_one_change_is_approved_on_its_page_with_the_changes_of_the_same_cause(tmp_path: Path) -> None:
    """n and p go through the queue; an empty reason is asked for and not sent."""
    project = tmp_path / "shop"
    make_review_project(project)

    async def work(page: UiPage) -> None:
        await page.go(f"{ui.origin}/changes/test_where")
        await page.key("n")
        await page.tab.until("!location.pathname.includes('test_where')")
        await page.tab.until("document.readyState === 'complete'")
        await page.key("p")
        await page.arrive("location.pathname.includes('test_where')")
        await page.tab.eval("document.querySelector('[data-related]').click()")
        await page.key("a")
        await page.tab.until("document.activeElement.matches('[data-reason]')")
        await page.tab.press("Enter")
        assert 6 == len(_pending(project))
        await page.tab.type("kinder answers")
        await page.tab.press("Enter")
        await page.tab.until("document.querySelector('.banner.good') !== null")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)

    assert 3 == len(_pending(project))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_both_widths_in_both_themes(tmp_path: Path, scheme: str) -> None:
    project = tmp_path / "shop"
    make_review_project(project)

    async def work(page: UiPage) -> None:
        await page.prefer(scheme)
        for width in (WIDE, NARROW):
            await page.resize(width)
            for name, path in (
                ("changes", "/changes"),
                ("change", "/changes/test_where"),
                ("change-inline", "/changes/test_where?diff=inline"),
                ("change-tool", "/changes/test_tool"),
                ("change-new", "/changes/test_summary"),
            ):
                await page.go(f"{ui.origin}{path}")
                await page.check_layout()
                await page.picture(f"{name}-{scheme}-{width}")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)


@pytest.mark.slow
def test_hostile_text_is_inert_and_the_layout_holds(tmp_path: Path) -> None:
    """In the prompt, the answer, the call site and the name of the test; new and changed."""
    project = tmp_path / "shop"
    call = {"scope": f"tests/test_x.py::test[{HOSTILE[:300]}]", "source": f"{HOSTILE[:200]}.py:7:f"}
    make_review_project(
        project,
        [make_call("calm", "calm", 1, **call)],
        [make_call(HOSTILE, HOSTILE, 1, **call), make_call(f"new {HOSTILE}", HOSTILE, 2, model=HOSTILE[:60])],
    )

    async def work(page: UiPage) -> None:
        for path in ["/changes", *(f"/changes/{name}" for name in _pending(project))]:
            for width in (WIDE, NARROW):
                await page.resize(width)
                await page.go(f"{ui.origin}{path}")
                await page.tab.eval(OPEN_EVERYTHING)
                await page.check_layout()
                assert "taken" not in await page.tab.eval("document.title")
                assert 0 == await page.tab.eval("document.querySelectorAll('main script, main img').length")
                assert "49" not in await page.text("h1")
            await page.picture(f"hostile-{'list' if path == '/changes' else 'change'}")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)
