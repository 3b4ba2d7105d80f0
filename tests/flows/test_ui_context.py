"""The pages about the context store over HTTP: what they show, from a database or a server, and what was purged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import traceforge
from support.context_project import SECRET_NOTE, ContextProject, make_context_project, open_project_store
from support.store_servers import new_api_key, run_server
from support.ui_servers import RunningUi, run_ui
from traceforge.context import Client
from traceforge.context.model.inputs import NewEvent
from traceforge.ui.page_context import UiOptions


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ContextProject:
    return make_context_project(tmp_path_factory.mktemp("context"))


@pytest.fixture
def ui(project: ContextProject) -> Iterator[RunningUi]:
    with run_ui(project.folder) as running:
        yield running


def branch_path(project: ContextProject, branch: str) -> str:
    return f"/context/branches/{branch}?session={project.session}"


def test_a_project_without_a_store_gets_none(tmp_path: Path) -> None:
    """The page says how to create one, and reading it creates no file."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    with run_ui(tmp_path) as ui:
        page = ui.page("/context")
        ui.page("/context/sessions/ses_0", status=404)

    assert "traceforge context session create" in page
    assert [] == [path for path in tmp_path.rglob("*") if "context" in path.name]


def test_a_snapshot_of_a_deleted_session_has_a_page(tmp_path: Path) -> None:
    """The blocks of its events have no text; the request for a provider does."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / ".ai-tests").mkdir()
    with Client.open(str(tmp_path / ".ai-tests" / "context.db")) as client:
        session = client.create_session()
        place = (session.id, session.default_branch_id)
        event = NewEvent(event_type="user_message", content="Where is it?")
        client.append_event(*place, expected_version=0, expected_head_event_id=None, event=event)
        snapshot = client.create_snapshot(*place)
        client.delete_session(session.id)

    with run_ui(tmp_path) as ui:
        page = ui.page(f"/context/snapshots/{snapshot.id}")
        request = ui.page(f"/context/snapshots/{snapshot.id}?provider=openai")

    assert "Its artifact or session was deleted" in page
    assert (0, 1) == (page.count("Where is it?"), request.count("Where is it?"))


def test_sessions_are_listed_with_their_branches(ui: RunningUi, project: ContextProject) -> None:
    page = ui.page("/context")

    assert "Where is my order 4711?" in page
    assert f'href="/context/sessions/{project.session}"' in page
    for branch in (project.main, project.refund, project.retry):
        assert f'href="{branch_path(project, branch)}"' in page
    assert f'href="/context/replay-runs/{project.replay_run}"' in page
    assert f'href="/context/receipts/{project.purge_job}"' in page


def test_the_branches_of_a_session_are_a_graph_and_a_list(ui: RunningUi, project: ContextProject) -> None:
    """Two forks are two bends; a checkpoint and a copied event are dashed lines."""
    page = ui.page(f"/context/sessions/{project.session}")
    graph = page[page.index('<svg class="graph"') : page.index("</svg>", page.index('<svg class="graph"'))]

    assert [3, 2] == [graph.count("graph-label"), graph.count("graph-merge")]
    assert 3 == page.count("<tr data-item>")
    assert "merged: refund, send again" in " ".join(page.split())


def test_a_branch_is_a_conversation(ui: RunningUi, project: ContextProject) -> None:
    """A result stands under its call, an artifact with its text, a merge with its branch, a response with a link."""
    page = ui.page(branch_path(project, project.main))

    assert "find_order" in page
    assert "lost in transit" in page
    assert "Parcels are insured" in page
    assert f'href="/context/responses/{project.responses[0].id}"' in page
    assert re.search(rf'merged from <a href="/context/branches/{project.refund}', page)
    assert re.search(rf'Forked here: <a class="branch-chip" href="/context/branches/{project.refund}', page)


def test_a_branch_is_found_without_its_session(ui: RunningUi, project: ContextProject) -> None:
    """The address of the URL scheme, which people type; an unknown branch is not found."""
    response = ui.http.get(f"/context/branches/{project.refund}")

    assert (303, branch_path(project, project.refund)) == (response.status_code, response.headers["location"])
    ui.page("/context/branches/brn_nothing", status=404)


def test_a_purged_event_is_shown_as_purged(ui: RunningUi, project: ContextProject) -> None:
    """With its receipt; its text is nowhere."""
    page = ui.page(branch_path(project, project.retry))

    assert f'href="/context/receipts/{project.receipt}"' in page
    assert SECRET_NOTE not in page
    assert "No content." not in page


def test_an_unknown_session_is_not_found(ui: RunningUi) -> None:
    assert "TF801" in ui.page("/context/sessions/ses_00000000000000000000000000", status=404)


def test_a_snapshot_has_its_blocks_by_origin(ui: RunningUi, project: ContextProject) -> None:
    """In the order in which a model sees them, the instructions of the bundle first."""
    page = ui.page(f"/context/snapshots/{project.responses[2].snapshot_id}")
    origins = re.findall(r'class="origin-tag">([^<]+)<', page)

    assert ["text context", "text context", "user message"] == origins[:3]
    assert {"assistant message", "tool result", "retrieval result", "checkpoint"} <= set(origins)
    assert "estimated" in page


@pytest.mark.parametrize(
    ("provider", "path"),
    [("openai", "/chat/completions"), ("anthropic", "/messages"), ("gemini", ":generateContent")],
)
def test_the_request_of_a_provider_is_shown(ui: RunningUi, project: ContextProject, provider: str, path: str) -> None:
    """On the page and as text, as `snapshot render` prints it."""
    snapshot = f"/context/snapshots/{project.responses[0].snapshot_id}"
    page = ui.page(f"{snapshot}?provider={provider}")
    text = ui.page(f"{snapshot}/request/{provider}")

    assert path in page
    assert text.startswith("POST ")
    assert path in text
    assert "Please look it up." in text
    ui.page(f"{snapshot}?provider=other", status=404)
    ui.page(f"{snapshot}/request/other", status=404)


def test_two_snapshots_are_compared_block_by_block(ui: RunningUi, project: ContextProject) -> None:
    before, after = (project.responses[place].snapshot_id for place in (0, 2))
    page = ui.page(f"/context/snapshots/{before}/diff/{after}")
    same = ui.page(f"/context/snapshots/{before}/diff/{before}")

    assert "added" in page
    assert "So what will you do?" in page
    assert "Both have the same blocks" in same
    assert "Both have the same blocks" not in page


def test_a_response_has_everything_that_it_pins(ui: RunningUi, project: ContextProject) -> None:
    """Its answer, its target, its digests, and the prompt, whose digest agrees with the pinned one."""
    response = project.responses[1]
    page = ui.page(f"/context/responses/{response.id}")

    for text in (response.snapshot_id, response.alias_release_id, response.request_digest, "rr_1", "openai/desk-1"):
        assert text is not None
        assert text in page
    assert response.parameters_digest in page
    assert "digest agrees" in page
    assert "You asked: “How long does it take?”" in page


def test_a_replay_run_has_three_lanes(ui: RunningUi, project: ContextProject) -> None:
    """With the words that differ from the recorded answer."""
    page = ui.page(f"/context/replay-runs/{project.replay_run}")

    assert 9 == page.count('<section class="lane">')
    assert "Fresh baseline" in page
    assert page.count("<ins>")
    assert page.count("<del>")
    assert "candidate changed" in page


def test_a_replay_run_is_shared_as_one_file(ui: RunningUi, project: ContextProject) -> None:
    """Over HTTP and by the command, which has the store open already; both have all items and no script."""
    shared = ui.http.get(f"/share/context/replay-runs/{project.replay_run}").text
    words = ("context", "replay", "report", project.replay_run, "--html", "replay.html")
    ran = traceforge(*words, cwd=project.folder)

    assert 0 == ran.code, ran
    assert shared == (project.folder / "replay.html").read_text()
    assert 9 == shared.count('<section class="lane">')
    assert "<script" not in shared


def test_answers_of_one_verdict_are_shown_alone(ui: RunningUi, project: ContextProject) -> None:
    path = f"/context/replay-runs/{project.replay_run}"

    assert f'href="{path}?verdict=candidate_changed"' in ui.page(path)
    assert 9 == ui.page(f"{path}?verdict=candidate_changed").count('<section class="lane">')
    assert 0 == ui.page(f"{path}?verdict=unchanged").count('<section class="lane">')


def test_a_list_says_what_a_run_compares_and_why_something_was_purged(ui: RunningUi) -> None:
    page = ui.page("/context")

    assert "openai/desk-1 → openai/desk-2" in page
    assert "asked for by the customer" in page


def test_a_branch_is_shared_whole(ui: RunningUi, project: ContextProject) -> None:
    """With the graph of its session beside it; neither leads to the server, and purged content is in neither."""
    branch = ui.http.get(f"/share{branch_path(project, project.retry)}").text
    session = ui.http.get(f"/share/context/sessions/{project.session}").text

    assert "Please send it again instead." in branch
    assert SECRET_NOTE not in branch + session
    assert (3, 0) == (session.count('class="graph-label"'), session.count('href="/'))
    assert '<g class="graph-link"' in session


def read_pages(ui: RunningUi, project: ContextProject) -> list[str]:
    """Every page about this store, from its heading on."""
    answer = project.responses[0]
    paths = (
        "/context", f"/context/sessions/{project.session}", branch_path(project, project.main),
        f"/context/snapshots/{answer.snapshot_id}", f"/context/snapshots/{answer.snapshot_id}?provider=openai",
        f"/context/snapshots/{answer.snapshot_id}/diff/{project.responses[1].snapshot_id}",
        f"/context/responses/{answer.id}", f"/context/replay-runs/{project.replay_run}",
        f"/context/receipts/{project.receipt}",
    )  # fmt: skip
    pages = [re.sub(r"<time[^>]*>[^<]*</time>", "", ui.page(path)) for path in paths]
    return [page.partition("<main")[2] for page in pages]


def test_a_server_with_a_key_shows_what_its_database_does(
    ui: RunningUi, project: ContextProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a project without a store of its own, with a key that may only read; the key is on no page."""
    store = open_project_store(project.folder)
    key = new_api_key(store, "read")
    (tmp_path / "traceforge.config.json").write_text("{}")
    monkeypatch.setenv("TRACEFORGE_CONTEXT_API_KEY", key)
    with run_server(store, required=True) as server:
        with run_ui(tmp_path, options=UiOptions(context_server=server.url)) as remote:
            pages = read_pages(remote, project)
        monkeypatch.setenv("TRACEFORGE_CONTEXT_API_KEY", f"{key[:-4]}0000")
        with run_ui(tmp_path, options=UiOptions(context_server=server.url)) as stranger:
            refused = stranger.page("/context", status=502)
    store.close()

    assert read_pages(ui, project) == pages
    assert [] == [page for page in (*pages, refused) if key in page]
    assert "API key" in refused


@pytest.mark.parametrize("name", ["receipt", "purge_job"])
def test_a_receipt_says_what_was_removed(ui: RunningUi, project: ContextProject, name: str) -> None:
    page = ui.page(f"/context/receipts/{getattr(project, name)}")

    assert project.receipt in page
    assert project.purged_event in page
    assert "asked for by the customer" in page
    ui.page("/context/receipts/pur_nothing", status=404)


def test_purged_input_is_gone_and_has_its_receipt(ui: RunningUi, project: ContextProject) -> None:
    """The snapshot that pinned a purged event: 410, never an empty page."""
    for path in ("", "?provider=openai", f"/diff/{project.responses[0].snapshot_id}"):
        page = ui.page(f"/context/snapshots/{project.purged_snapshot}{path}", status=410)

        assert f'href="/context/receipts/{project.receipt}"' in page
        assert SECRET_NOTE not in page
