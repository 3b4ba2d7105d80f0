"""The server: what it lets in, how it says no, and what it tells about itself."""

from __future__ import annotations

import json
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.context_builders import append_event, list_all_events, new_session
from support.databases import start_postgres
from support.operation_store import Store
from support.store_servers import RunningServer, auth_header, new_api_key, run_server
from traceforge.context.model.inputs import NewSnapshot
from traceforge.web.request_reading import BODY_BYTES_MAX

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="session", params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """The server does not know which database it is; the others of these tests do."""
    return str(request.param)


@pytest.fixture
def site(store: Store) -> Iterator[RunningServer]:
    """A server without keys."""
    with run_server(store) as server:
        yield server


@pytest.fixture
def guarded(store: Store) -> Iterator[RunningServer]:
    """A server that demands a key."""
    with run_server(store, required=True) as server:
        yield server


def raw(url: str, data: bytes) -> bytes:
    """What comes back for bytes, to the end of the connection."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as peer:
        peer.sendall(data)
        content = b""
        while piece := peer.recv(65536):
            content += piece
        return content


def error_of(answer) -> dict:
    """What a refusal says; it says it in one shape alone."""
    assert "application/json" == answer.headers["content-type"]
    error = answer.json()["error"]
    assert {"message", "type", "code", "param"} <= error.keys()
    return error


def test_a_conflict_names_the_current_version_and_head(site: RunningServer, store: Store) -> None:
    session = new_session(store)
    event = append_event(store, session)
    path = f"/v2/sessions/{session.id}/branches/{session.default_branch_id}/events"
    body = {
        "expected_version": 0,
        "expected_head_event_id": None,
        "event": {"event_type": "note", "content": "x"},
    }

    answer = site.http.post(path, json=body)

    assert 409 == answer.status_code
    error = error_of(answer)
    assert "branch_version_conflict" == error["code"]
    assert (1, event.id) == (error["current_version"], error["current_head_event_id"])
    retried = {**body, "expected_version": 1, "expected_head_event_id": error["current_head_event_id"]}
    assert 201 == site.http.post(path, json=retried).status_code


def test_a_request_that_waits_for_a_lock_delays_no_other_request(site: RunningServer, store: Store) -> None:
    """It is served when the other process releases the lock."""
    session = new_session(store)
    path = f"/v2/sessions/{session.id}/branches/{session.default_branch_id}/events"
    event = {"event_type": "note", "content": "x"}
    body = {"expected_version": 0, "expected_head_event_id": None, "event": event}
    other = sqlite3.connect(store.database.path or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(site.http.post, path, json=body)
        time.sleep(0.3)
        alive = [site.http.get("/healthz").status_code, site.http.get(path).status_code]
        still = not waiting.done()
        other.execute("ROLLBACK")
        answer = waiting.result()

    assert [200, 200] == alive
    assert still
    assert 201 == answer.status_code
    assert [answer.json()["id"]] == [event.id for event in list_all_events(store, session)]
    other.close()


def test_every_invalid_field_is_named(site: RunningServer) -> None:
    body = {"artifact_type": "poem", "content": "x", "retention_class": 3, "colour": "red", "size": 1}

    answer = site.http.post("/v2/artifacts", json=body)

    assert 400 == answer.status_code
    error = error_of(answer)
    assert "artifact_type" == error["param"]
    named = {problem["param"] for problem in error["problems"]}
    assert {"artifact_type", "retention_class", "colour", "size"} == named
    assert all(parameter in error["message"] for parameter in named)


def test_an_unknown_field_is_named_at_any_depth(site: RunningServer, store: Store) -> None:
    session = new_session(store)
    body = {
        "expected_version": 0,
        "expected_head_event_id": None,
        "event": {"event_type": "note", "content": "x", "colour": "red"},
    }

    answer = site.http.post(f"/v2/sessions/{session.id}/branches/{session.default_branch_id}/events", json=body)

    assert (400, "unknown_field", "event.colour") == (
        answer.status_code,
        error_of(answer)["code"],
        error_of(answer)["param"],
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b'{"metadata": {"a": "\\ud800"}}', "not_json"),
        (b"[" * 300 + b"]" * 300, "not_json"),
        (b"[]", "invalid_fields"),
        (b'{"metadata": 1e999}', "not_json"),
        (b'{"metadata": {}, "metadata": {}}', "duplicate_name"),
        (b'{"metadata" : {"a": "b:c", "x": [{"n": 1, "n" :2}]}}', "duplicate_name"),
        (rb'{"metadata": {"a": "\u003a", "b": 1, "b": 2}}', "duplicate_name"),
        (rb'{"metadata": {"a": 1, "\u0061": 2}}', "duplicate_name"),
        (b'{"metadata": {"a:": ":", "a:": ":"}}', "duplicate_name"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(site: RunningServer, body: bytes, code: str) -> None:
    answer = site.http.post("/v2/sessions", content=body, headers=JSON)

    assert (400, code) == (answer.status_code, error_of(answer)["code"])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"", 200, None), (b"{}", 200, None), (b" {} ", 200, None), (b'{"why": 1}', 400, "unknown_field"),
     (b"[]", 400, "unexpected_body"), (b"null", 400, "unexpected_body"), (b"{", 400, "not_json")],
)  # fmt: skip
def test_an_operation_without_a_body_takes_an_empty_one(
    site: RunningServer, store: Store, body: bytes, status: int, code: str | None
) -> None:
    """Many clients send an empty object; any other body is refused."""
    session = new_session(store)
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())

    answer = site.http.post(f"/v2/snapshots/{snapshot.id}/verify", content=body, headers=JSON)

    assert status == answer.status_code
    if code is not None:
        assert code == error_of(answer)["code"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_a_body_without_a_json_content_type_is_refused(site: RunningServer, headers: dict[str, str]) -> None:
    answer = site.http.post("/v2/sessions", content=b"{}", headers=headers)

    assert (415, "unsupported_media_type") == (answer.status_code, error_of(answer)["code"])


def test_a_body_with_too_large_a_content_length_is_refused_before_it_is_sent(site: RunningServer) -> None:
    head = f"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\nExpect: 100-continue\r\n\r\n"  # noqa: E501

    answer = raw(site.url, head.encode())

    assert answer.startswith(b"HTTP/1.1 413 ")  # And no 100 before it.
    assert b'"body_too_large"' in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\r\n\r\n",
        b"FOO /v2/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["TLS", "no method", "negative length", "endless length", "two lengths"],
)
def test_bytes_that_are_not_http_get_an_error_of_the_same_shape(
    site: RunningServer, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """They are logged as a request, by our logger only."""
    head, _, body = raw(site.url, data).partition(b"\r\n\r\n")

    error = json.loads(body)["error"]
    (line,) = site.wait_for_log(1)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert ("not_http", "invalid_request_error", None) == (error["code"], error["type"], error["param"])
    assert (400, "not_http", "none") == (line["status"], line["code"], line["operation"])
    assert f"x-request-id: {line['request_id']}".encode() in head
    assert [] == caplog.records


def test_a_body_in_chunks_is_refused_as_soon_as_it_is_too_large(site: RunningServer) -> None:
    sent = 0

    def pieces():
        nonlocal sent
        for _ in range(64):
            sent += 1 << 20
            yield b" " * (1 << 20)

    try:
        answer = site.http.post("/v2/sessions", content=pieces(), headers=JSON)
    except Exception:  # noqa: BLE001 (the connection was closed while we sent: that is the point)
        assert sent < 64 << 20
    else:
        assert 413 == answer.status_code
    [line] = site.wait_for_log(1)
    assert 413 == line["status"]
    assert line["bytes_in"] < 3 << 20


def test_a_body_of_exactly_the_limit_is_read(site: RunningServer) -> None:
    empty = len(json.dumps({"artifact_type": "document", "content": ""}))
    body = json.dumps({"artifact_type": "document", "content": "x" * (BODY_BYTES_MAX - empty)})
    assert BODY_BYTES_MAX == len(body)

    assert 201 == site.http.post("/v2/artifacts", content=body, headers=JSON).status_code


def test_an_unknown_path_is_404_and_an_unknown_method_is_405(site: RunningServer) -> None:
    for path in ("/v2/nothing", "/nothing", "/v2/sessions/", "/v2//sessions", "/v2", "/v2/sessions/x/y"):
        assert (404, "no_such_path") == (
            site.http.get(path).status_code,
            error_of(site.http.get(path))["code"],
        ), path
    answer = site.http.put("/v2/sessions")
    assert (405, "method_not_allowed", "GET, HEAD, POST") == (
        answer.status_code,
        error_of(answer)["code"],
        answer.headers["allow"],
    )
    assert 405 == site.http.post("/healthz").status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1@evil.example"}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_request_from_a_page_of_another_site_is_refused(
    site: RunningServer, headers: dict[str, str], status: int
) -> None:
    """Neither data nor pages: Host, Origin and Sec-Fetch-Site are checked on every path."""
    for path in ("/v2/sessions", "/healthz", "/metrics", "/v2/openapi.json"):
        answer = site.http.get(path, headers=headers)
        assert status == answer.status_code
        error_of(answer)


def test_a_request_from_its_own_page_or_another_local_name_is_accepted(site: RunningServer) -> None:
    host = site.url.removeprefix("http://")
    for headers in ({"Origin": site.url}, {"Host": "localhost"}, {"Host": host, "Sec-Fetch-Site": "same-origin"}):
        assert 200 == site.http.get("/v2/sessions", headers=headers).status_code


def test_a_request_id_is_echoed_or_generated(site: RunningServer) -> None:
    assert "mine-1" == site.http.get("/v2/sessions", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"]
    generated_id = site.http.get("/v2/sessions", headers={"X-Request-Id": "a b"}).headers["x-request-id"]
    assert generated_id.startswith("req_")
    assert "no" == site.http.get("/nothing", headers={"X-Request-Id": "no"}).headers["x-request-id"]
    assert ["mine-1", generated_id, "no"] == [log_entry["request_id"] for log_entry in site.wait_for_log(3)]


def test_the_log_names_operations_and_holds_no_content(guarded: RunningServer, store: Store) -> None:
    key = new_api_key(store, "write")
    secret = "a-very-secret-word"
    for number, body in enumerate(({"metadata": {"a": secret}}, {secret: 1}, {"metadata": secret})):
        guarded.http.post(
            f"/v2/sessions?{secret}=1" if body == {secret: 1} else "/v2/sessions",
            json=body,
            headers={**auth_header(key), "Idempotency-Key": f"{secret}{number}", "X-Secret": secret},
        )
    guarded.http.get(f"/v2/sessions/{secret}", headers=auth_header(key))
    guarded.http.get(f"/{secret}", headers=auth_header(key))

    lines = guarded.wait_for_log(5)
    text = "\n".join(guarded.log)
    assert secret not in text
    assert key not in text
    first = lines[0]
    assert ("create_session", 201, store.project_id) == (first["operation"], first["status"], first["project_id"])
    assert [201, 400, 400, 404, 404] == [line["status"] for line in lines]


def test_the_metrics_are_in_the_format_of_prometheus(site: RunningServer) -> None:
    for _ in range(3):
        site.http.get("/v2/sessions")
    site.http.get("/v2/sessions/x")

    lines = site.http.get("/metrics").text.splitlines()

    assert 'traceforge_serve_requests_total{operation="list_sessions",status="200"} 3' in lines
    assert 'traceforge_serve_requests_total{operation="get_session",status="404"} 1' in lines
    assert 'traceforge_serve_request_seconds_count{operation="list_sessions"} 3' in lines
    assert 'traceforge_serve_request_seconds_bucket{operation="list_sessions",le="+Inf"} 3' in lines
    assert "traceforge_serve_in_flight 1" in lines
    named = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    described = {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    assert named <= described | {f"{metric}_{part}" for metric in described for part in ("bucket", "sum", "count")}


def test_healthz_and_readyz_return_200(site: RunningServer) -> None:
    assert {"status": "ok"} == site.http.get("/healthz").json()
    assert {"status": "ready"} == site.http.get("/readyz").json()
    assert b"" == site.http.head("/healthz").content
    assert 200 == site.http.head("/v2/sessions").status_code


def test_every_route_requires_a_valid_api_key(guarded: RunningServer, store: Store) -> None:
    api_key = new_api_key(store, "admin")
    [listed_key] = store.list_api_keys().data
    store.delete_api_key(listed_key.id)
    document = _document(store)
    count = 0
    for path, methods in document["paths"].items():
        for method in methods:
            for headers in (
                {},
                auth_header("tf_live_nobody"),
                auth_header(api_key),
                {"Authorization": f"Basic {api_key}"},
            ):
                answer = guarded.http.request(method, path, headers=headers)
                assert 401 == answer.status_code, (method, path)
                assert "Bearer" == answer.headers["www-authenticate"]
                error_of(answer)
                count += 1
    assert count > 100
    for path in ("/metrics", "/v2/openapi.json"):
        assert 401 == guarded.http.get(path).status_code
    for path in ("/healthz", "/readyz"):
        assert 200 == guarded.http.get(path).status_code


def _document(store: Store) -> dict:
    with run_server(store) as site:
        body: dict = site.http.get("/v2/openapi.json").json()
        return body


def test_a_key_allows_what_its_scope_allows(guarded: RunningServer, store: Store) -> None:
    allowed = {"read": {"read"}, "write": {"read", "write"}, "admin": {"read", "write", "admin"}}
    document = _document(store)
    keys = {scope: new_api_key(store, scope) for scope in allowed}
    ids = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = operation["x-traceforge-scope"]
            for scope, may in allowed.items():
                answer = guarded.http.request(method, path, headers=auth_header(keys[scope]))
                assert (needed not in may) == (403 == answer.status_code), (method, path, scope, answer.text)
                ids.add((needed, scope))
    assert 9 == len(ids)


def test_a_key_is_valid_for_one_project_only(guarded: RunningServer, store: Store, other: Store) -> None:
    mine, theirs = new_api_key(store, "admin"), new_api_key(other, "admin")
    session = new_session(other)

    assert 404 == guarded.http.get(f"/v2/sessions/{session.id}", headers=auth_header(mine)).status_code
    assert 200 == guarded.http.get(f"/v2/sessions/{session.id}", headers=auth_header(theirs)).status_code
    assert [] == guarded.http.get("/v2/sessions", headers=auth_header(mine)).json()["data"]
    own = guarded.http.get("/v2/projects", headers=auth_header(theirs)).json()["data"]
    assert [other.project_id] == [project["id"] for project in own]
    refused = guarded.http.post(
        "/v2/api-keys", json={"scopes": ["read"], "project_id": store.project_id}, headers=auth_header(theirs)
    )
    assert 404 == refused.status_code
    assert 403 == guarded.http.post("/v2/projects", json={"name": "x"}, headers=auth_header(theirs)).status_code
    made_for_them = guarded.http.post(
        "/v2/api-keys", json={"scopes": ["read"], "project_id": other.project_id}, headers=auth_header(mine)
    )
    assert 201 == made_for_them.status_code  # The operator of the server.


def test_the_operator_lists_and_revokes_the_keys_of_every_project(
    site: RunningServer, guarded: RunningServer, store: Store, other: Store
) -> None:
    """For a key of a single project, the keys of other projects do not exist."""
    body = site.http.post("/v2/api-keys", json={"project_id": other.project_id, "scopes": ["admin"]}).json()
    mine = new_api_key(store, "read")
    theirs = {"Authorization": f"Bearer {body['key']}"}

    pages = [site.http.get("/v2/api-keys?limit=100").json()]
    while pages[-1]["has_more"]:
        pages.append(site.http.get(f"/v2/api-keys?limit=100&after={pages[-1]['data'][-1]['id']}").json())
    keys = [key for page in pages for key in page["data"]]
    hidden = guarded.http.get("/v2/api-keys", headers=theirs).json()["data"]
    foreign = next(key["id"] for key in keys if key["project_id"] == store.project_id)
    refused = guarded.http.delete(f"/v2/api-keys/{foreign}", headers=theirs)
    revoked = site.http.delete(f"/v2/api-keys/{body['id']}")

    assert {store.project_id, other.project_id} <= {key["project_id"] for key in keys}
    assert [body["id"]] == [item["id"] for item in hidden]
    assert (404, 200) == (refused.status_code, revoked.status_code)
    assert 401 == guarded.http.get("/v2/api-keys", headers=theirs).status_code
    assert 200 == guarded.http.get("/v2/sessions", headers=auth_header(mine)).status_code


@pytest.mark.slow
def test_a_missing_database_is_503_and_the_server_keeps_running(tmp_path: Path) -> None:
    """Alive but not ready; the error names neither a host nor a file."""
    with tempfile.TemporaryDirectory(prefix="tf-pg-", ignore_cleanup_errors=True) as folder:
        database = start_postgres(folder)
        store = Store.open(database.get_uri(), keys=str(tmp_path / "keys"))
        with run_server(store) as site:
            assert 200 == site.http.get("/readyz").status_code
            database.cleanup()
            answers = [
                site.http.get("/readyz"),
                site.http.get("/v2/sessions"),
                site.http.post("/v2/sessions", json={}),
            ]
            assert 200 == site.http.get("/healthz").status_code
        store.close()
    for answer in answers:
        assert (503, "store_unavailable") == (answer.status_code, error_of(answer)["code"])
        assert folder not in answer.text
