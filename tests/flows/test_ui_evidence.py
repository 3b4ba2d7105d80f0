"""Evidence over HTTP and in Chromium: recordings, packs, tampered ones, paths, and dropped files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.evidence_project import make_bomb, make_evidence_project, tamper_with_bundle, write_recording
from support.format_examples import example_session
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import FORM_TOKEN, RunningUi, run_ui
from traceforge.ui.page_context import UiOptions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_evidence_project(tmp_path)


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def drop(ui: RunningUi, data: bytes, name: str = "dropped.json", **headers: str) -> httpx.Response:
    """Send a file as the page does."""
    match = FORM_TOKEN.search(ui.page("/evidence"))
    assert match
    sent = {
        "Origin": ui.origin,
        "Sec-Fetch-Site": "same-origin",
        "X-TraceForge-Form-Token": match[1],
        "X-TraceForge-File-Name": name,
        **headers,
    }
    return ui.http.post("/evidence", content=data, headers=sent)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_valid_evidence_is_listed_as_valid(ui: RunningUi) -> None:
    page = ui.page("/evidence")

    assert "all valid" in page
    for path in ("evidence/chat.json", "evidence/run-1", "evidence/run-1.tar.zst"):
        assert f'href="/evidence/{path}"' in page
        assert "failed" not in ui.page(f"/evidence/{path}")


def test_tampered_evidence_names_its_rule_its_place_and_what_to_do(project: Path, ui: RunningUi) -> None:
    """One edited answer of a recording, one edited bundle of a pack, one changed byte of an archive."""
    write_recording(project / "evidence/chat.json", "Nice.")
    tamper_with_bundle(project / "evidence/run-1")
    archive = project / "evidence/run-1.tar.zst"
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)

    assert "3 not valid" in ui.page("/evidence")
    recording = ui.page("/evidence/evidence/chat.json")
    assert "$.interactions[1].response_hash" in recording
    assert "traceforge help MI7" in recording
    assert "the hash shows that an answer was edited" in recording
    assert "hash mismatch" in ui.page("/evidence/evidence/run-1")
    assert "PK13" in ui.page("/evidence/evidence/run-1.tar.zst")


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/outside.json", "..%2Foutside.json", "evidence/%2e%2e/%2e%2e/outside.json", "%2Fetc%2Fpasswd",
     "link.json", "folder/chat.json", "evidence%5Cchat.json", "evidence/chat.json%00", "evidence/", "missing.json"],
)  # fmt: skip
def test_a_path_out_of_the_project_is_not_found(project: Path, ui: RunningUi, path: str) -> None:
    write_recording(project.parent / "outside.json")
    (project / "link.json").symlink_to(project.parent / "outside.json")
    (project / "folder").symlink_to(project / "evidence")

    assert "There is no such file in this project." in ui.page(f"/evidence/{path}", status=404)


def test_a_dropped_file_is_verified_and_not_stored(project: Path, tmp_path: Path) -> None:
    """Also by a server that is read-only: nothing changes."""
    before = files_of(tmp_path)
    archive = (project / "evidence/run-1.tar.zst").read_bytes()
    tampered = example_session("Paris.")
    tampered["interactions"][0]["response_content"] = "Lyon."
    with run_ui(project, options=UiOptions(is_read_only=True)) as ui:
        valid = drop(ui, json.dumps(example_session("Paris.")).encode(), "chat%20%3Cb%3E.json").text
        assert "chat &lt;b&gt;.json" in valid
        assert "valid" in valid
        assert "failed" not in valid
        assert "$.interactions[0].response_hash" in drop(ui, json.dumps(tampered).encode()).text
        assert "failed" not in drop(ui, archive, "run.tar.zst").text

    assert before == files_of(tmp_path)


def test_hostile_files_are_answered(ui: RunningUi) -> None:
    """Deep JSON, a decompression bomb, bytes that are no text."""
    assert "PARSE" in drop(ui, b"[" * 1_000_000).text
    assert "expands to more than" in drop(ui, make_bomb()).text
    assert "PARSE" in drop(ui, b"\xff\x00\xfe").text


def test_a_file_that_is_too_large_is_refused(project: Path) -> None:
    with run_ui(project, body_bytes=1000) as ui:
        assert 413 == drop(ui, b" " * 1001).status_code


@pytest.mark.parametrize(
    "headers",
    [{"X-TraceForge-Form-Token": "wrong"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}],
)
def test_a_file_of_another_page_is_refused(ui: RunningUi, headers: dict[str, str]) -> None:
    assert 403 == drop(ui, b"{}", **headers).status_code


def test_a_project_without_evidence_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "traceforge.config.json").write_text("{}")
    with run_ui(tmp_path) as ui:
        assert "appear here" in ui.page("/evidence")


@pytest.mark.slow
def test_evidence_in_a_browser(project: Path, tmp_path: Path) -> None:
    """A tampered recording on its page, and a chosen file, at both widths and in both themes."""
    write_recording(project / "evidence/edited.json", "Nice.")
    tamper_with_bundle(project / "evidence/run-1")
    outside = tmp_path / "outside.json"
    write_recording(outside, "Lille.")
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/evidence")
            for width in (WIDE, NARROW):
                await page.resize(width)
                await page.check_layout()
                await page.picture(f"evidence-list-{width}")
            await page.resize(WIDE)
            await page.key("j")
            await page.tab.press("Enter")
            await page.arrive("location.pathname === '/evidence/evidence/chat.json'")
            await page.go(f"{ui.origin}/evidence/evidence/edited.json")
            await page.prefer("dark")
            await page.picture("evidence-recording-dark")
            await page.go(f"{ui.origin}/evidence/evidence/run-1")
            await page.prefer("light")
            await page.picture("evidence-pack")
            await page.resize(NARROW)
            await page.check_layout()
            await page.picture("evidence-pack-narrow")
            await page.resize(WIDE)
            await page.go(f"{ui.origin}/evidence")
            await page.tab.choose_file("[data-drop-choose]", outside)
            await page.tab.until("document.querySelector('.dropped') !== null")
            assert "1 violation" in await page.text(".dropped .facts")
            await page.check_layout()
            await page.picture("evidence-dropped")

        visit(tmp_path, ui.sign_in_url, work)
