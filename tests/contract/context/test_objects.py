"""Projects, keys, artifacts, bundles and sessions: made, read, listed, changed, deleted."""

from __future__ import annotations

from base64 import b64encode

import pytest
from msgspec.structs import replace

from support.context_builders import new_artifact, new_bundle, new_session
from support.operation_store import Store
from traceforge.canon import digest_bytes, digest_canonical
from traceforge.context.model.inputs import NewApiKey, NewArtifact, NewBundle, NewProject, NewSession, SessionChange
from traceforge.context.model.objects import ArtifactType, BundleItem, SessionStatus
from traceforge.context.storage.tables import api_keys
from traceforge.errors import StoreRefused
from traceforge.terminal import one_line

NOBODY = "art_00000000000000000000000000"


def refused(error: pytest.ExceptionInfo[StoreRefused]) -> tuple[int, str, str | None]:
    """What a caller decides by."""
    return error.value.status, error.value.reason, error.value.param


def test_a_project_begins_with_the_first_generation(store: Store) -> None:
    """It is read through its own store."""
    project = store.create_project(NewProject(name="one"))
    own = store.of_project(project.id)

    assert ("one", 1) == (project.name, project.generation)
    assert project == own.get_project()


def test_projects_are_listed_in_the_order_of_their_creation(store: Store) -> None:
    """A page continues after the last project of the page before."""
    project_ids = [store.create_project(NewProject(name=str(number))).id for number in range(3)]

    page = store.list_projects(limit=2, after=project_ids[0])

    assert (project_ids[1:], False) == ([project.id for project in page.data], page.has_more)


def test_an_api_key_is_returned_once_and_only_its_hash_is_stored(store: Store, other: Store) -> None:
    """The key identifies its project; the database does not contain it."""
    api_key = store.create_api_key(NewApiKey(scopes=["admin", "read"], label="ci"))
    stored_key = store.find_api_key(api_key.key or "")

    assert api_key.key is not None
    assert api_key.key.startswith("tf_live_")
    assert 8 + 43 == len(api_key.key)
    assert stored_key is not None
    assert (store.project_id, ["read", "admin"], None) == (stored_key.project_id, stored_key.scopes, stored_key.key)
    assert [replace(stored_key, label="ci")] == store.list_api_keys().data
    assert [] == other.list_api_keys().data
    rows = store.read(lambda tx: tx.fetch_all(api_keys.select()))
    assert api_key.key.removeprefix("tf_live_") not in str(rows)


@pytest.mark.parametrize("key", ["", "tf_live_", "tf_live_" + "x" * 43, "tf_live_ü", "nothing"])
def test_an_unknown_api_key_is_not_found(store: Store, key: str) -> None:
    """Whatever it looks like."""
    assert None is store.find_api_key(key)


def test_a_revoked_key_opens_nothing(store: Store, other: Store) -> None:
    """And only its own project revokes it."""
    api_key = store.create_api_key(NewApiKey(scopes=["read"]))
    with pytest.raises(StoreRefused):
        other.delete_api_key(api_key.id)
    assert None is not store.find_api_key(api_key.key or "")

    store.delete_api_key(api_key.id)

    assert None is store.find_api_key(api_key.key or "")
    assert [] == store.list_api_keys().data


def test_the_content_of_a_text_artifact_is_its_utf8(store: Store) -> None:
    """With a digest of exactly that."""
    artifact = new_artifact(store, "Grüße 🙂", metadata={"source": "wiki"})
    content = store.get_artifact_content(artifact.id)

    assert "Grüße 🙂".encode() == content.data
    assert "text/plain; charset=utf-8" == content.media_type
    assert digest_bytes(content.data) == artifact.content_digest
    assert len(content.data) == artifact.size_bytes
    assert {"source": "wiki"} == store.get_artifact(artifact.id).metadata


def test_a_json_artifact_has_the_digest_of_its_canonical_text(store: Store) -> None:
    """However its keys were ordered; its numbers are kept as they came."""
    artifact = new_artifact(store, {"b": 12345678901234567890, "a": [1.5, None]})

    assert b'{"b":12345678901234567890,"a":[1.5,null]}' == store.get_artifact_content(artifact.id).data
    assert "application/json" == artifact.content_media_type
    assert digest_canonical({"a": [1.5, None], "b": 12345678901234567890}) == artifact.content_digest


def test_bytes_are_stored_unchanged(store: Store) -> None:
    """They are sent as base64."""
    data = bytes(range(256))
    artifact = store.create_artifact(
        NewArtifact(
            artifact_type=ArtifactType.BINARY_ATTACHMENT,
            content_base64=b64encode(data).decode(),
            content_media_type="image/png",
        )
    )

    assert (data, "image/png") == store.get_artifact_content(artifact.id)
    assert digest_bytes(data) == artifact.content_digest


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT), "content"),
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT, content="a", content_base64="YQ=="), "content"),
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT, content_base64="Y"), "content_base64"),
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT, content="\ud800"), "content"),
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT, content=[float("nan")]), "content"),
        (NewArtifact(artifact_type=ArtifactType.DOCUMENT, content="a", metadata={"x": float("inf")}), "metadata"),
        (
            NewArtifact(artifact_type=ArtifactType.DOCUMENT, content="a", content_media_type="a\0b"),
            "content_media_type",
        ),
    ],
)
def test_content_that_cannot_be_stored_is_refused(store: Store, body: NewArtifact, param: str) -> None:
    """Nothing is written, and the error names the field."""
    with pytest.raises(StoreRefused) as error:
        store.create_artifact(body)

    assert (404 if param == "after" else 400, param) == (error.value.status, error.value.param)
    assert [] == store.list_artifacts().data


def test_a_value_that_nests_too_deep_is_refused(store: Store) -> None:
    """Every walk over a value may rely on its depth."""
    value: list[object] = []
    for _ in range(300):
        value = [value]

    with pytest.raises(StoreRefused, match="nested too deeply"):
        new_artifact(store, value)


def test_a_list_continues_after_a_given_id(store: Store) -> None:
    """Oldest first, each object once, until there are no more."""
    artifact_ids = [new_artifact(store, str(number)).id for number in range(5)]

    first = store.list_artifacts(limit=2)
    second = store.list_artifacts(limit=2, after=first.data[-1].id)
    third = store.list_artifacts(limit=2, after=second.data[-1].id)

    assert artifact_ids == [artifact.id for artifact in first.data + second.data + third.data]
    assert [True, True, False] == [first.has_more, second.has_more, third.has_more]


def test_a_list_continues_after_a_deleted_object(store: Store) -> None:
    """An object may be deleted between two pages."""
    artifact_ids = [new_artifact(store, str(number)).id for number in range(3)]
    store.delete_artifact(artifact_ids[1])

    assert [artifact_ids[2]] == [artifact.id for artifact in store.list_artifacts(after=artifact_ids[1]).data]


@pytest.mark.parametrize(
    ("limit", "after", "param"), [(0, None, "limit"), (101, None, "limit"), (1, NOBODY, "after")]
)
def test_an_invalid_limit_or_cursor_is_refused(store: Store, limit: int, after: str | None, param: str) -> None:
    """A limit out of range, and an unknown cursor."""
    with pytest.raises(StoreRefused) as error:
        store.list_artifacts(limit=limit, after=after)

    assert (404 if param == "after" else 400, param) == (error.value.status, error.value.param)


@pytest.mark.parametrize("after", ["", "x", "art_\0", "\ud800", NOBODY.upper()])
def test_a_cursor_that_is_no_id_is_refused(store: Store, after: str) -> None:
    """Also where a database would not take it as a text."""
    for listing in (store.list_artifacts, store.list_projects, store.list_api_keys, store.list_sessions):
        with pytest.raises(StoreRefused) as error:
            listing(after=after)
        assert (404, "invalid_cursor", "after") == refused(error)


@pytest.mark.parametrize("after", ["", "x", "bot\0", "\ud800", "b\u00f6t"])
def test_a_cursor_that_is_not_an_alias_is_refused(store: Store, after: str) -> None:
    """The cursor of this list is a name, which a database may refuse too."""
    with pytest.raises(StoreRefused) as error:
        store.list_aliases(after=after)

    assert (404, "invalid_cursor", "after") == refused(error)


def test_a_cursor_of_another_project_is_unknown(store: Store, other: Store) -> None:
    """The error does not reveal whether the object exists."""
    theirs = new_artifact(other).id

    with pytest.raises(StoreRefused) as error:
        store.list_artifacts(after=theirs)

    assert (404, "invalid_cursor", "after") == refused(error)


def test_a_deleted_artifact_cannot_be_read_listed_or_used(store: Store) -> None:
    """It cannot be deleted a second time either."""
    artifact = new_artifact(store)
    store.delete_artifact(artifact.id)

    for use in (
        lambda: store.get_artifact(artifact.id),
        lambda: store.get_artifact_content(artifact.id),
        lambda: store.delete_artifact(artifact.id),
        lambda: store.create_bundle(NewBundle(items=[BundleItem(artifact_id=artifact.id, role="system")])),
    ):
        with pytest.raises(StoreRefused) as error:
            use()
        assert (404, "not_found") == refused(error)[:2]
    assert [] == store.list_artifacts().data


def test_a_bundle_keeps_the_order_of_its_items(store: Store) -> None:
    """Also if an artifact is in it twice."""
    first, two = new_artifact(store, "one"), new_artifact(store, "two")
    items = [
        BundleItem(artifact_id=two.id, role="system"),
        BundleItem(artifact_id=first.id, role="developer"),
        BundleItem(artifact_id=two.id, role="user"),
    ]

    bundle = store.create_bundle(NewBundle(items=items, metadata={"a": 1}))

    assert (items, {"a": 1}) == (bundle.items, bundle.metadata)
    assert bundle == store.get_bundle(bundle.id)
    assert [bundle] == store.list_bundles().data


def test_a_bundle_with_a_missing_artifact_is_refused(store: Store, other: Store) -> None:
    """The error names the item; an artifact of another project is missing too."""
    mine, theirs = new_artifact(store), new_artifact(other)
    for bad in (NOBODY, theirs.id, "nonsense", "\ud800"):
        items = [BundleItem(artifact_id=mine.id, role="system"), BundleItem(artifact_id=bad, role="system")]
        with pytest.raises(StoreRefused) as error:
            store.create_bundle(NewBundle(items=items))
        assert (404, "not_found", "items[1].artifact_id") == refused(error)
        assert f"there is no artifact {one_line(bad)}" == error.value.message
    assert [] == store.list_bundles().data


def test_a_deleted_bundle_cannot_be_used(store: Store) -> None:
    """It cannot start a session."""
    bundle = new_bundle(store, "one")
    store.delete_bundle(bundle.id)

    for use in (
        lambda: store.get_bundle(bundle.id),
        lambda: store.delete_bundle(bundle.id),
        lambda: store.create_session(NewSession(base_bundle_ids=[bundle.id])),
    ):
        with pytest.raises(StoreRefused) as error:
            use()
        assert 404 == error.value.status
    assert [] == store.list_bundles().data


def test_a_session_begins_with_an_empty_branch(store: Store) -> None:
    """Of version 0, without a head."""
    session = store.create_session(NewSession(base_bundle_ids=[new_bundle(store, "one").id], metadata={"user": "u1"}))
    branch = store.get_branch(session.id, session.default_branch_id)

    assert (SessionStatus.ACTIVE, {"user": "u1"}) == (session.status, session.metadata)
    assert session == store.get_session(session.id)
    assert [session] == store.list_sessions().data
    assert (0, None, None, None) == (
        branch.version,
        branch.head_event_id,
        branch.parent_branch_id,
        branch.forked_from_event_id,
    )


def test_a_session_is_changed_field_by_field(store: Store) -> None:
    """What is not named stays as it is."""
    session = store.create_session(NewSession(metadata={"a": 1}))

    archived = store.update_session(session.id, SessionChange(status="archived"))
    renamed = store.update_session(session.id, SessionChange(metadata={"b": [2]}))
    active = store.update_session(session.id, SessionChange(status="active"))

    assert (SessionStatus.ARCHIVED, {"a": 1}) == (archived.status, archived.metadata)
    assert (SessionStatus.ARCHIVED, {"b": [2]}) == (renamed.status, renamed.metadata)
    assert (SessionStatus.ACTIVE, {"b": [2]}) == (active.status, active.metadata)
    assert active == store.update_session(session.id, SessionChange())


def test_a_deleted_session_cannot_be_read(store: Store) -> None:
    """Its branches are deleted with it."""
    session = new_session(store)
    store.delete_session(session.id)

    for use in (
        lambda: store.get_session(session.id),
        lambda: store.delete_session(session.id),
        lambda: store.update_session(session.id, SessionChange(status="active")),
        lambda: store.list_branches(session.id),
        lambda: store.get_branch(session.id, session.default_branch_id),
        lambda: store.list_events(session.id, session.default_branch_id),
    ):
        with pytest.raises(StoreRefused) as error:
            use()
        assert (404, f"session {session.id} was deleted") == (error.value.status, error.value.message)
    assert [] == store.list_sessions().data


def test_an_object_of_another_project_is_not_found(store: Store, other: Store) -> None:
    """The error is the same, letter for letter, as for an id that does not exist."""
    foreign = new_artifact(other), new_bundle(other, "x"), new_session(other)
    uses = (
        (store.get_artifact, "artifact", foreign[0].id),
        (store.get_artifact_content, "artifact", foreign[0].id),
        (store.delete_artifact, "artifact", foreign[0].id),
        (store.get_bundle, "bundle", foreign[1].id),
        (store.delete_bundle, "bundle", foreign[1].id),
        (store.get_session, "session", foreign[2].id),
        (store.delete_session, "session", foreign[2].id),
        (store.list_branches, "session", foreign[2].id),
    )
    for use, kind, theirs in uses:
        nobody = theirs[: theirs.index("_") + 1] + "0" * 26
        for foreign_id in (theirs, nobody):
            with pytest.raises(StoreRefused) as error:
                use(foreign_id)
            assert (404, f"there is no {kind} {foreign_id}") == (error.value.status, error.value.message)


def test_a_transaction_is_written_as_a_whole_or_not_at_all(store: Store) -> None:
    """If the last part fails, the first part is not written."""

    def both(joined: Store) -> None:
        new_artifact(joined, "first")
        assert 1 == len(joined.list_artifacts().data)
        joined.get_bundle("bnd_" + "0" * 26)

    with pytest.raises(StoreRefused):
        store.transaction(both)

    assert [] == store.list_artifacts().data
    store.transaction(
        lambda joined: (new_artifact(joined, "a"), joined.transaction(lambda inner: new_artifact(inner, "b")))
    )
    assert 2 == len(store.list_artifacts().data)
