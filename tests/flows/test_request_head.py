"""Where a request goes and its headers: what counts, what does not, and what is unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gate_project import CHAT, CHAT_CALL_COUNT, CONFIG, Site
from support.model_servers import model_server
from traceforge.clock import now
from traceforge.config import load_config
from traceforge.replay.compared_headers import ALWAYS_STORED
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import write_raw_response
from traceforge.snapshots.formats.snapshot_format import RECORD_FIELDS
from traceforge.snapshots.tree.approved_calls import load_approved_calls

URL = "f\"{os.environ['OPENAI_BASE_URL']}/{path}\""
HEADERS = '"headers": {"Authorization"'


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of a project with approved calls; its provider has another port now."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


def configure(site: Site, **settings: object) -> None:
    """Change the configuration, and approve that."""
    (site.folder / "traceforge.config.json").write_text(json.dumps({**CONFIG, **settings}))
    approved = site.run("approve", "--policy", "--reason", "as it is")
    assert 0 == approved.code, approved


@pytest.mark.slow
def test_another_upstream_is_one_finding_with_the_line_that_declares_it_the_same(site: Site) -> None:
    """For all calls; with the line, it is green."""
    site.edit(URL, 'f"https://llm.example.com/gateway/{path}"')

    red = site.test("-k", CHAT)
    setting = red.err.partition('declare it: "upstreams": ')[2].partition("\n")[0]
    configure(site, upstreams=json.loads(setting))
    green = site.test("-k", CHAT)

    assert (1, 1) == (red.code, red.err.count(": GT")), red.err
    assert "goes to another upstream: approved local/v1, sent to llm.example.com/gateway" in red.err
    assert {"llm-example-com": {"url": "https://llm.example.com/gateway", "same_as": "local/v1"}} == json.loads(
        setting
    )
    assert (0, True) == (green.code, f"GREEN: {CHAT_CALL_COUNT} calls replayed" in green.err), green.err


@pytest.mark.slow
def test_a_header_that_changed_everywhere_and_a_path_are_one_finding_each(site: Site) -> None:
    """A header of the application's own, one that steers the provider, and the path before the endpoint."""
    site.edit(HEADERS, '"headers": {"X-Tenant": "b", "OpenAI-Beta": "assistants=v2", "Authorization"')
    site.edit(
        "return _text(await client.request(**_request(", 'return _text(await client.request(**_request("team/" + '
    )

    ran = site.test("-k", "test_chat or test_many")

    assert 1 == ran.code
    assert 1 == ran.err.count("the header x-tenant of "), ran.err
    assert 'changed: approved nothing, sent "b", and the same edit in' in ran.err
    assert 1 == ran.err.count("the header openai-beta of ")
    assert 1 == ran.err.count("goes to another upstream: approved local/v1, sent to local/v1/team")
    assert 3 == ran.err.count(": GT")


@pytest.mark.slow
def test_what_another_client_machine_or_day_changes_is_green(site: Site) -> None:
    """Headers of an SDK, of tracing, of an account and of the connection; spellings of a media type."""
    more = {
        "User-Agent": "OpenAI/Python 9.9", "X-Stainless-Lang": "js", "x-stainless-retry-count": "1",
        "traceparent": "00-1-2-01", "OpenAI-Organization": "org-2", "Accept": "application/json", "Expect": "",
        "X-Request-ID": "17", "Content-Type": "application/json; charset=utf-8", "Accept-Encoding": "identity",
        "X-Forwarded-For": "10.0.0.1", "Idempotency-Key": "k", "openai-beta": "",
    }  # fmt: skip
    site.edit(HEADERS, f'"headers": {{**{more!r}, "Authorization"')

    ran = site.test("-k", CHAT)

    assert (0, True) == (ran.code, f"GREEN: {CHAT_CALL_COUNT} calls replayed" in ran.err), ran.err
    assert "compared without" not in ran.err


@pytest.mark.slow
def test_a_project_compares_more_headers_and_ignores_others(site: Site) -> None:
    configure(site, match={"headers": ["openai-organization"], "ignore_headers": ["X-Run"]})
    site.edit(HEADERS, '"headers": {"X-Run": str(id({})), "OpenAI-Organization": "org-2", "Authorization"')

    ran = site.test("-k", CHAT)

    assert (1, 1) == (ran.code, ran.err.count(": GT")), ran.err
    assert "the header openai-organization of" in ran.err


@pytest.mark.slow
def test_an_account_that_a_project_compares_is_recorded_and_another_is_red(site: Site, recorded: Site) -> None:
    """Its value is redacted, so it is compared by its fingerprint."""
    configure(site, match={"headers": ["openai-organization"]})
    site.edit(HEADERS, '"headers": {"OpenAI-Organization": "org-2", "Authorization"')
    key = {"TRACEFORGE_MATCH_KEY": (recorded.folder / ".ai-tests" / "match.key").read_text().strip()}
    assert 0 == site.record("-k", CHAT, **key).code
    assert 0 == site.approve().code
    green = site.test("-k", CHAT, **key)
    site.edit('"org-2"', '"org-3"')
    red = site.test("-k", CHAT, **key)

    assert 0 == green.code, green.err
    assert 1 == red.code, red.err
    assert not [path for path in site.folder.rglob("*.json") if "org-2" in path.read_text()]


@pytest.mark.slow
def test_a_test_has_the_base_urls_of_the_recording_and_no_others(site: Site) -> None:
    """Another address, one that was not set, and none at all; frameworks send other fields then."""
    site.edit(HEADERS, '"headers": {**EXTRA, "Authorization"')
    site.edit(
        "SETTINGS: dict", 'EXTRA = {"X-Gateway": "1"} if "OPENAI_API_BASE" in os.environ else {}\nSETTINGS: dict'
    )
    others = {"OPENAI_BASE_URL": "https://llm.example.com/v1", "OPENAI_API_BASE": "https://llm.example.com"}

    ran = site.test("-k", CHAT, **others)
    plugin = site.plugin("-k", CHAT, without=["OPENAI_BASE_URL"], OPENAI_API_BASE="https://llm.example.com")

    assert (0, True) == (ran.code, f"GREEN: {CHAT_CALL_COUNT} calls replayed" in ran.err), ran.err
    assert (0, True) == (plugin.code, f"{CHAT_CALL_COUNT} calls replayed" in plugin.out), plugin.out


def store_as_an_older_version(site: Site) -> None:
    """Rewrite the raw responses without their upstreams, and with the headers that every version has stored."""
    loaded = load_config(str(site.folder))
    changes = []
    for call in load_approved_calls(loaded.project, ModelPolicy.from_config(loaded.config)):
        assert call.raw_response is not None
        headers = tuple(pair for pair in call.raw_response.request_headers if pair[0].lower() in ALWAYS_STORED)
        raw = call.raw_response._replace(upstream=None, request_headers=headers, base_urls=None)
        record = {name: call.record[name] for name in RECORD_FIELDS} if call.record is not None else None
        changes.append(SnapshotChange(call.provider, call.id, record, write_raw_response(raw)))
    commit_changes(loaded.project, ModelPolicy.from_config(loaded.config), changes, reason="old", now=now())


@pytest.mark.slow
def test_what_an_old_tree_does_not_know_equals_anything_until_it_is_recorded_again(site: Site) -> None:
    """Counted in every run, listed by `migrate` and in its approval; what it does know still counts."""
    store_as_an_older_version(site)
    site.edit(HEADERS, '"headers": {"X-Tenant": "a", **EXTRA, "Authorization"')
    site.edit("SETTINGS: dict", 'EXTRA = {"OpenAI-Beta": "v2"} if "BETA" in os.environ else {}\nSETTINGS: dict')
    unknown = f"{CHAT_CALL_COUNT} calls compared without upstream or headers, which the snapshots do not know"

    before = site.test("-k", CHAT)
    migrated = site.run("snapshot", "migrate")
    again = site.run("snapshot", "migrate")
    after = site.test("-k", CHAT)
    known = site.test("-k", CHAT, BETA="1")

    assert (0, True) == (before.code, unknown in before.err), before.err
    assert (0, True) == (migrated.code, "where it went and its headers except anthropic-beta, " in migrated.out)
    assert "nothing to migrate" in again.out
    assert (0, True) == (after.code, unknown in after.err), after.err
    assert (1, True) == (known.code, "the header openai-beta of" in known.err), known.err
    assert 0 == site.run("verify").code
    approvals = [json.loads(file.read_text()) for file in (site.folder / ".ai-snapshots/approvals").iterdir()]
    assert {("upstream", "headers")} == {
        tuple(change["unknown"]) for approval in approvals if "migrated" in approval["reason"]
        for change in approval["changes"]
    }  # fmt: skip


@pytest.mark.slow
def test_what_was_unknown_counts_once_it_is_recorded_again(site: Site) -> None:
    """The diff shows what is known now."""
    store_as_an_older_version(site)
    site.edit(HEADERS, '"headers": {"X-Tenant": os.environ.get("TENANT", "a"), "Authorization"')

    site.record("-k", CHAT, options=("--fresh",))
    diff = site.run("diff")
    site.approve()
    green = site.test("-k", CHAT)
    red = site.test("-k", CHAT, TENANT="b")

    assert "upstream: unknown → local/v1" in diff.out
    assert "header x-tenant: unknown → a" in diff.out
    assert (0, False) == (green.code, "compared without" in green.err), green.err
    assert (1, 1) == (red.code, red.err.count("the header x-tenant of")), red.err
