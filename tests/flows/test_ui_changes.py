"""The review queue over HTTP: it approves and refuses what the command line approves and refuses."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from support.command import COMMAND, traceforge
from support.proposals import make_call
from support.review_project import make_review_project
from support.ui_servers import RunningUi, run_ui
from traceforge.cli.main import main
from traceforge.snapshots.approve import pending_approval
from traceforge.ui.page_context import UiOptions

NOW = datetime(2026, 11, 18, 10, tzinfo=UTC)
# Root may write into every folder, unless it gives up that privilege.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def made_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "shop"
    make_review_project(folder)
    return folder


@pytest.fixture
def project(made_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CI", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    return Path(shutil.copytree(made_project, tmp_path / "shop"))


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def _pending(project: Path) -> list[str]:
    return sorted(file.stem for file in (project / ".ai-tests/pending").glob("*.json"))


def _tree(project: Path) -> dict[str, bytes]:
    """Every file that is approved, or waits for it."""
    folders = (project / ".ai-snapshots", project / ".ai-tests/pending")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(project)): file.read_bytes() for file in files}


def _text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_queue_lists_every_change_and_its_page_shows_it(ui: RunningUi, project: Path) -> None:
    page = ui.page("/changes")

    for name in _pending(project):
        assert f'href="/changes/{name}"' in page
        assert name in ui.page(f"/changes/{name}")
    assert "the same edit in 1 more call, and 1 later call repeats it" in page


def test_a_change_is_found_by_the_beginning_of_its_id_and_an_unknown_one_is_not(ui: RunningUi) -> None:
    """As on the command line, with its error."""
    assert "Good news: order" in _text(ui.page("/changes/test_where"))
    assert "TF203" in ui.page("/changes/nothing", status=404)


def test_a_change_is_shown_side_by_side_and_inline(ui: RunningUi) -> None:
    assert 'class="diff diff-side"' in ui.page("/changes/test_where")
    inline = ui.page("/changes/test_where?diff=inline")

    assert 'class="diff diff-inline"' in inline
    assert "<del>three</del><ins>two</ins>" in inline


@pytest.mark.parametrize("options", [{}, {"tag": "SHOP-9"}])
def test_an_approval_of_the_page_is_byte_for_byte_that_of_the_command_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """With the same reason, identity and clock; what was not chosen stays pending."""
    monkeypatch.setattr(pending_approval, "now", lambda: NOW)
    other = Path(shutil.copytree(project, project.parent / "by-command"))
    chosen = [name for name in _pending(project) if not name.startswith("test_french")]

    with run_ui(project) as ui:
        answer = ui.post("/changes/approve", id=chosen, reason=" kinder answers ", **options)
    monkeypatch.chdir(other)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    with pytest.raises(SystemExit) as exited:
        main(["approve", *chosen, "--reason", "kinder answers", *words])

    assert 0 == exited.value.code
    assert 303 == answer.status_code
    assert 1 == len(_pending(project))
    assert _tree(other) == _tree(project)
    assert any(name.startswith(".ai-snapshots/approvals/2026-11-18T10") for name in _tree(project))


def test_the_page_after_an_approval_says_what_to_do_next(ui: RunningUi, project: Path) -> None:
    target = ui.post("/changes/approve", id=_pending(project), reason="kinder").headers["location"]
    page = _text(ui.page(target))

    assert "Approved. Commit .ai-snapshots/ with your change." in page
    assert "Nothing waits for review." in page


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_the_page_of_a_change_leads_on_to_the_next_one(ui: RunningUi, action: str) -> None:
    """In the order of the queue, past those that were chosen with it; after the last one, back to the queue."""
    queue = re.findall(r'data-item data-id="([^"]+)"', ui.page("/changes"))
    first = ui.post(f"/changes/{action}", id=queue[:2], page=queue[0], reason="kinder").headers["location"]
    last = ui.post(f"/changes/{action}", id=queue[2:], page=queue[2], reason="kinder").headers["location"]

    assert 6 == len(queue)
    assert (f"/changes/{queue[2]}", "/changes") == (first.partition("?")[0], last.partition("?")[0])


def test_a_search_narrows_the_queue(ui: RunningUi, project: Path) -> None:
    """Its file too; what is not shown stays pending."""
    found = re.findall(r'data-item data-id="([^"]+)"', ui.page("/changes?q=french&kind=changed+(answer)"))

    assert ["test_french"] == [name.rpartition("-")[0] for name in found]
    assert "No pending change matches" in ui.page("/changes?q=nothing-like-this")
    assert "test_french" in ui.page("/share/changes?q=french")
    assert "test_where" not in ui.page("/share/changes?q=french")
    assert 6 == len(_pending(project))


def test_a_change_shows_who_approved_its_snapshot_before(ui: RunningUi, project: Path) -> None:
    """With a link to each approval; a new call has none."""
    (approval,) = (project / ".ai-snapshots/approvals").glob("*.json")
    name = approval.stem.rpartition("-")[2]
    page = ui.page("/changes/test_where")

    assert f'href="/approvals#{name}">the first answers, as agreed</a>' in page
    assert f'id="{name}"' in ui.page("/approvals")
    assert "Approved before" not in ui.page("/changes/test_summary")


def test_rejected_changes_are_deleted_and_the_snapshots_stay(ui: RunningUi, project: Path) -> None:
    before = {name: data for name, data in _tree(project).items() if name.startswith(".ai-snapshots")}
    rejected, *others = _pending(project)
    answer = ui.post("/changes/reject", id=[rejected])

    assert ("/changes?rejected=1", others) == (answer.headers["location"], _pending(project))
    assert before == {name: data for name, data in _tree(project).items() if name.startswith(".ai-snapshots")}


@pytest.mark.parametrize("reason", ["", "  ", "TODO", "…"])
def test_a_reason_that_says_nothing_is_refused_in_the_words_of_the_command_line(
    ui: RunningUi, project: Path, reason: str
) -> None:
    before = _tree(project)
    name = _pending(project)[0]
    answer = ui.post("/changes/approve", id=[name], reason=reason)
    command = traceforge("approve", name, "--reason", reason, cwd=project)

    message = command.err.partition("--reason: ")[2].strip()
    assert message
    assert (409, 2) == (answer.status_code, command.code)
    assert message in _text(answer.text)
    assert f'value="{name}" aria-label="Select {name}" data-select checked' in answer.text
    assert before == _tree(project)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_where_ci_is_set_both_are_refused_and_not_offered(
    ui: RunningUi, project: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """In the words of the command line."""
    before = _tree(project)
    monkeypatch.setenv("CI", "true")
    answer = ui.post(f"/changes/{action}", id=_pending(project), reason="kinder")
    command = traceforge(action, *_pending(project), *(["--reason", "kinder"] * (action == "approve")), cwd=project,
                         CI="true")  # fmt: skip

    message = command.err.partition("Error: ")[2].strip()
    assert message
    assert (409, 2) == (answer.status_code, command.code)
    assert message.replace("`", "") in _text(answer.text)
    assert "data-approve" not in ui.page("/changes") + ui.page("/changes/test_where")
    assert before == _tree(project)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_read_only_server_offers_and_does_neither(project: Path, action: str) -> None:
    before = _tree(project)
    with run_ui(project, options=UiOptions(is_read_only=True)) as ui:
        answer = ui.post(f"/changes/{action}", id=_pending(project), reason="kinder")
        pages = ui.page("/changes") + ui.page("/changes/test_where")

    assert 403 == answer.status_code
    assert not re.search(r"data-approve|data-reject |formaction", pages)
    assert before == _tree(project)


@contextmanager
def _serve(project: Path) -> Iterator[httpx.Client]:
    """`traceforge ui` without the privilege to write into folders that are read-only."""
    words = [*UNPRIVILEGED, str(COMMAND), "ui", "--json", "--port", "0"]
    with subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url.partition("/?")[0], trust_env=False, timeout=30) as client:
                client.get(url)
                yield client
        finally:
            process.terminate()


def test_a_read_only_tree_is_refused_with_the_error_of_the_command_line(project: Path) -> None:
    """With its code; nothing is written."""
    (name, *_) = _pending(project)
    folders = [folder for folder in [project / ".ai-snapshots", *(project / ".ai-snapshots").rglob("*")]
               if folder.is_dir()]  # fmt: skip
    for folder in folders:
        folder.chmod(0o555)
    before = _tree(project)
    command = subprocess.run([*UNPRIVILEGED, COMMAND, "approve", name, "--reason", "kinder"], cwd=project,
                             capture_output=True, text=True, check=False)  # fmt: skip
    with _serve(project) as client:
        (token,) = re.findall(r'name="form-token" content="([0-9a-f]+)"', client.get("/changes").text)
        origin = str(client.base_url).rstrip("/")
        form = {"form_token": token, "id": name, "reason": "kinder"}
        answer = client.post("/changes/approve", data=form, headers={"Origin": origin})
    for folder in folders:
        folder.chmod(0o755)

    code, message = re.findall(r"(TF\d+):? (.*)", command.stderr)[0]
    assert (3, 409) == (command.returncode, answer.status_code), command.stderr
    assert code in answer.text
    assert message.split(": ")[0] in _text(answer.text)
    assert before == _tree(project)


def test_a_change_that_is_too_old_is_not_approved(tmp_path: Path) -> None:
    """With the code of the command line, all or none."""
    project = tmp_path / "shop"
    changes = make_review_project(project, [make_call("a")], [make_call("b"), make_call("c", number=1)])
    file = project / f".ai-tests/pending/{changes[0].id}.json"
    stored = json.loads(file.read_text())
    stored["before"] = "sha256:" + "0" * 64
    file.write_text(json.dumps(stored))
    before = _tree(project)
    with run_ui(project) as ui:
        answer = ui.post("/changes/approve", id=_pending(project), reason="kinder")
    command = traceforge("approve", "--all", "--reason", "kinder", cwd=project)

    assert (409, 3) == (answer.status_code, command.code)
    assert "TF701" in answer.text
    assert "TF701" in command.err
    assert "was recorded before its snapshot was changed" in answer.text
    assert before == _tree(project)


def test_settings_are_approved_where_the_form_says_so(ui: RunningUi, project: Path) -> None:
    """As with `--policy`; the configuration is read when it is needed, and not when the server started."""
    (project / "traceforge.config.json").write_text('{"test": {"may_skip": ["tests/test_desk.py::test_where"]}}')
    listed = ui.page("/changes")
    answer = ui.post("/changes/approve", reason="flaky", policy="1")

    assert "test.may_skip" in listed
    assert 303 == answer.status_code
    assert "test.may_skip" not in ui.page("/changes")
    assert 0 == traceforge("verify", cwd=project).code


def test_the_whole_review_is_shared_as_one_file(ui: RunningUi, project: Path) -> None:
    """With every change, its difference or its call, and nothing to click; the command writes the same file."""
    shared = ui.http.get("/share/changes")
    ran = traceforge("diff", "--html", "review.html", cwd=project)

    assert (200, 1) == (shared.status_code, ran.code)
    assert "attachment" in shared.headers["content-disposition"]
    assert shared.text == (project / "review.html").read_text()
    assert len(_pending(project)) == shared.text.count("What changed")
    assert "kindly" in shared.text
    assert not re.search(r"<(form|input|button|script)\b", shared.text)


def test_an_empty_queue_says_what_to_do_next(tmp_path: Path) -> None:
    make_review_project(tmp_path / "shop", [], [])
    with run_ui(tmp_path / "shop") as ui:
        assert "traceforge record -- COMMAND" in ui.page("/changes")


@pytest.mark.parametrize("content", ["{}", "{broken", None], ids=["not a change", "not JSON", "not a file"])
def test_a_damaged_pending_file_is_a_notice_beside_the_other_changes(
    ui: RunningUi, project: Path, content: str | None
) -> None:
    """It is not skipped; the other changes are shown, and nothing is decided, as on the command line."""
    damaged, *others = _pending(project)
    file = project / f".ai-tests/pending/{damaged}.json"
    file.unlink()
    file.write_text(content) if content is not None else file.mkdir()
    before = None if content is None else _tree(project)
    page = ui.page("/changes")

    assert [True] * len(others) == [f'href="/changes/{name}"' in page for name in others]
    assert "1 pending change cannot be read." in page
    assert f"<code>.ai-tests/pending/{damaged}.json</code>" in page
    assert content is None or f"rm .ai-tests/pending/{damaged}.json" in page
    assert ui.page(f"/changes/{others[0]}")
    assert "cannot be read" in _text(ui.http.get("/share/changes").text)
    code = "TF201" if content is None else "TF103"
    assert code in page
    assert code in ui.page(f"/changes/{damaged}", status=500)
    for action in ("approve", "reject"):
        refused = ui.post(f"/changes/{action}", id=others, reason="kinder")
        assert (True, True) == (refused.status_code >= 400, code in refused.text), action
    assert before in (None, _tree(project))
