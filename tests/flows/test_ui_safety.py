"""What every route of the web view owes: who may change something, what a read-only server does, and no secret."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest

from support.full_project import FullProject, make_full_project
from support.ui_servers import TOKEN, RunningUi, run_ui
from traceforge.ui.page_context import Action, UiOptions, Upload
from traceforge.ui.ui_access import FORM_TOKEN_HEADER, UiAccess
from traceforge.ui.ui_server import AREAS

ROUTES = [page for area in AREAS for page in area.pages]
CHANGES = [page for page in ROUTES if isinstance(page, Action | Upload)]
ADDRESSES = [page.path for page in CHANGES]
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
MARKER = "correct-horse-battery"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> FullProject:
    return make_full_project(tmp_path_factory.mktemp("safe"))


@pytest.fixture(scope="module")
def ui(project: FullProject) -> Iterator[RunningUi]:
    with run_ui(project.folder) as running:
        yield running


def read_files(project: FullProject) -> dict[str, str]:
    """The digest of every file that a change could be about, but for traces, which readers take from the spool."""
    files = [
        file for file in project.folder.rglob("*") if file.is_file() and not {".git", "traces"} & set(file.parts)
    ]
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.suffix in (".json", ".yaml", ".jsonl")
    }


def fill(project: FullProject, path: str) -> str:
    """The address of an action on something that the project has, as far as a page of it has one."""
    for route, address in project.addresses.items():
        if path == route:
            return address
    trace = project.addresses["/traces/{trace_id}"].rpartition("/")[2]
    return re.sub(r"\{[^}]+\}", trace, path)


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_change_without_the_token_of_a_form_is_refused(project: FullProject, ui: RunningUi, path: str) -> None:
    """Without one, with that of another server, of another origin, without an origin; and it changes nothing."""
    own = ui.server.application.access.form_token
    other = UiAccess("127.0.0.1", 1, "another-token-of-the-tests").form_token
    before = read_files(project)
    origin = {"Origin": ui.origin}
    refused = [
        origin,
        {**origin, FORM_TOKEN_HEADER: other},
        {**origin, FORM_TOKEN_HEADER: own[:-1]},
        {"Origin": "https://evil.example", FORM_TOKEN_HEADER: own},
        {"Origin": "null", FORM_TOKEN_HEADER: own},
        {**origin, "Sec-Fetch-Site": "cross-site", FORM_TOKEN_HEADER: own},
        {FORM_TOKEN_HEADER: own},
    ]

    statuses = [ui.http.post(fill(project, path), headers=headers).status_code for headers in refused]

    assert [403] * len(refused) == statuses
    assert before == read_files(project)


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_change_without_the_cookie_is_refused(project: FullProject, path: str) -> None:
    """Also with the token of a form, which only a page shows."""
    with run_ui(project.folder, signed_in=False) as ui:
        token = ui.server.application.access.form_token
        headers = {"Origin": ui.origin, FORM_TOKEN_HEADER: token, **SAME_SITE}

        assert 401 == ui.http.post(fill(project, path), headers=headers).status_code


def test_a_read_only_server_refuses_every_change(project: FullProject) -> None:
    """Only what shows a file that the request brings is answered; no page has a form that changes something."""
    before = read_files(project)
    allowed = {page.path for page in CHANGES if isinstance(page, Upload) or page.only_shows}
    with run_ui(project.folder, options=UiOptions(is_read_only=True)) as ui:
        headers = {"Origin": ui.origin, FORM_TOKEN_HEADER: ui.server.application.access.form_token, **SAME_SITE}
        statuses = {path: ui.http.post(fill(project, path), headers=headers).status_code for path in ADDRESSES}
        pages = [ui.http.get(path).text for path in project.pages.values()]
        ui.page(project.addresses["/traces/{trace_id}"])
    forms = {action for page in pages for action in re.findall(r'<form method="post" action="([^"]+)"', page)}

    assert {path for path, status in statuses.items() if status == 403} == set(ADDRESSES) - allowed
    assert before == read_files(project)
    assert forms <= allowed


def test_keys_of_the_environment_are_on_no_page(project: FullProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the token of the server, nor the password of a database that cannot be reached."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "TRACEFORGE_CONTEXT_API_KEY"):
        monkeypatch.setenv(name, f"{name}-{MARKER}")
    monkeypatch.setenv("TRACEFORGE_MATCH_KEY", f"{MARKER}-match-key")
    paths = [*project.addresses.values(), *project.states.values(), "/context"]
    server = f"http://ada:{MARKER}@127.0.0.1:9"
    database = f"postgresql://ada:{MARKER}@127.0.0.1:9/shop"
    texts = []
    for options in (UiOptions(), UiOptions(context_server=server), UiOptions(context_server=database)):
        with run_ui(project.folder, options=options) as ui:
            texts += [ui.http.get(path, follow_redirects=True).text for path in paths]

    assert [] == [text[:300] for text in texts if MARKER in text or TOKEN in text]
