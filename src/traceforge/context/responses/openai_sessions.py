"""Turn a call of OpenAI's API into a context session, so that a snapshot can pin it.

Never: reorders messages, or lets the model see a message that the store does not have.

Without a session, a call creates one: everything up to the last system or developer message becomes its base bundle,
followed by the tools and the response schema; the other messages become its first events. With a session, the
messages that the call repeats, its tools and its schema must equal those of the branch; only new messages are
appended. So the model gets exactly what the snapshot holds.
"""

from __future__ import annotations

from typing import Any, cast

from traceforge.canon import JSON, JSONObject
from traceforge.context.compiler.block_contents import open_origins
from traceforge.context.compiler.branch_compilation import block_origins
from traceforge.context.history.artifacts import create_artifact
from traceforge.context.history.branch_paths import branch_path
from traceforge.context.history.branches import load_branch_row
from traceforge.context.history.bundles import create_bundle
from traceforge.context.history.events import (
    PackedEvent,
    append_packed_events,
    check_head,
    pack_event,
    read_branch_for_append,
)
from traceforge.context.history.sessions import create_session, get_session
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.inputs import NewArtifact, NewBundle, NewEvent, NewResponse, NewSession
from traceforge.context.model.objects import ArtifactType, BundleItem, Content, EventType, Role
from traceforge.context.project_store import Store
from traceforge.context.responses.openai_shape import ConversationItem, OpenAIRequest, to_items
from traceforge.context.responses.renderer_revisions import find_renderer
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import sessions
from traceforge.errors import StoreRefused
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import as_object, as_text, list_objects, without_fields

_EVENTS = {
    "user": EventType.USER_MESSAGE,
    "assistant": EventType.ASSISTANT_MESSAGE,
    "tool": EventType.TOOL_RESULT,
}
_INSTRUCTING = ("system", "developer")
_PINNED = ("tools", "response_format")
_NOT_MESSAGES = (ArtifactType.TOOL_BUNDLE_SOURCE, ArtifactType.RESPONSE_SCHEMA)


def pin_session(store: Store, request: OpenAIRequest, session_id: str | None = None) -> NewResponse:
    """The response to ask for, on a new session or on an existing one.

    Raises:
        BranchConflict: another transaction appended to the session after its history was compared.
        StoreRefused: the call differs from the session, or a message cannot be stored.
    """
    items = to_items(request.messages)
    if session_id is None:
        branch = store.transaction(lambda joined: _new_session(joined, request, items))
    else:
        branch = store.transaction(lambda joined: _continue_session(joined, session_id, request, items))
    params = without_fields(request.parameters, _PINNED)
    return NewResponse(
        model=request.model,
        session_id=branch.session_id,
        branch_id=branch.id,
        expected_version=branch.version,  # Events that another call appends later are not part of this call.
        expected_head_event_id=branch.head_event_id,
        params=cast("dict[str, Any]", params),
        stream=request.stream,
    )


def _new_session(store: Store, request: OpenAIRequest, items: list[ConversationItem]) -> AnyRow:
    instructing = [place for place, item in enumerate(items) if item.role in _INSTRUCTING]
    cut = instructing[-1] + 1 if instructing else 0
    base = [_artifact(store, ArtifactType.TEXT_CONTEXT, item.content, item.role) for item in items[:cut]]
    tools, schema = (request.parameters.get(name) for name in _PINNED)
    if tools:
        base.append(_artifact(store, ArtifactType.TOOL_BUNDLE_SOURCE, tools, "system"))
    if schema:
        base.append(_artifact(store, ArtifactType.RESPONSE_SCHEMA, schema, "system"))
    bundles = [create_bundle(store.tx, NewBundle(items=base)).id] if base else []
    session = create_session(store.tx, NewSession(base_bundle_ids=bundles))
    branch = load_branch_row(store.tx, session.id, session.default_branch_id)
    return _append_items(store.tx, branch, items[cut:])


def _artifact(store: Store, kind: ArtifactType, content: JSON, role: str) -> BundleItem:
    artifact = create_artifact(store.tx, NewArtifact(artifact_type=kind, content=cast("Content", content)))
    return BundleItem(artifact_id=artifact.id, role=cast("Role", role))


def _continue_session(store: Store, session_id: str, request: OpenAIRequest, items: list[ConversationItem]) -> AnyRow:
    tx = store.tx
    tx.load(sessions, "session", session_id, param="X-TraceForge-Session")
    session = get_session(tx, session_id)
    branch = load_branch_row(tx, session_id, session.default_branch_id)
    blocks = open_origins(tx, block_origins(tx, session_id, branch_path(tx, branch)))
    stored_messages = [_block_message(block) for block in blocks if block.type not in _NOT_MESSAGES]
    sent_messages = [_comparable_message(item.role, item.content) for item in items]
    if stored_messages != sent_messages[: len(stored_messages)]:
        place = next(
            (at for at, pair in enumerate(zip(stored_messages, sent_messages, strict=False)) if pair[0] != pair[1]),
            len(sent_messages),
        )
        raise StoreRefused(
            f"messages differ from session {session_id} at index {place}",
            reason="history_mismatch",
            status=409,
            param=f"messages[{place}]",
            hint="Send the messages of the session followed by the new ones, or leave X-TraceForge-Session out.",
        )
    _check_same_tools(session_id, blocks, request.parameters)
    return _append_items(tx, branch, items[len(stored_messages) :])


def _check_same_tools(session_id: str, blocks: list[ContentBlock], parameters: JSONObject) -> None:
    """Check that tools and schema equal those of the session, which the snapshot holds."""
    renderer = find_renderer()
    stored_blocks = [block for block in blocks if block.type in _NOT_MESSAGES]
    stored_parameters = renderer.render(stored_blocks, Dialect.OPENAI).parameters
    sent_blocks = [
        ContentBlock("", "system", f"{kind.value}+json", parameters[name])
        for name, kind in zip(_PINNED, _NOT_MESSAGES, strict=True)
        if parameters.get(name)
    ]
    sent_parameters = renderer.render(sent_blocks, Dialect.OPENAI).parameters
    hint = "Send those of the session, or leave X-TraceForge-Session out to start a new session."
    if stored_parameters.get("tools") != sent_parameters.get("tools"):
        message = f"tools differ from session {session_id}"
        raise StoreRefused(message, reason="tools_mismatch", status=409, param="tools", hint=hint)
    if stored_parameters.get("response_format") != sent_parameters.get("response_format"):
        message = f"response_format differs from session {session_id}"
        raise StoreRefused(message, reason="schema_mismatch", status=409, param="response_format", hint=hint)


def _append_items(tx: StoreTransaction, branch: AnyRow, items: list[ConversationItem]) -> AnyRow:
    """Append the new items to a branch, if it still is as it was read; the branch after them."""
    packed_events: list[PackedEvent] = []
    for item in items:
        if item.role not in _EVENTS:
            message = f"a message with the role {item.role} cannot follow other messages"
            raise StoreRefused(message, reason="invalid_request", param="messages")
        event = NewEvent(event_type=_EVENTS[item.role], content=cast("Content", item.content))
        packed_events.append(pack_event(tx, event, "messages"))
    if not packed_events:
        return branch
    state = read_branch_for_append(tx, branch.session_id, branch.id)
    check_head(state, branch.version, branch.head_event_id)
    append_packed_events(tx, state, packed_events)
    return load_branch_row(tx, branch.session_id, branch.id)


def _block_message(block: ContentBlock) -> JSON:
    return _comparable_message(block.role, None if isinstance(block.content, bytes) else block.content)


def _comparable_message(role: str, content: JSON) -> JSON:
    """A message reduced to role, text and calls: clients send answers back with other fields."""
    message: JSONObject = content if isinstance(content, dict) else {"content": content}
    text = message.get("content")
    parts = list_objects(text)
    if parts and all(part.get("type") == "text" for part in parts):
        text = "".join(as_text(part.get("text")) for part in parts)
    calls: list[JSON] = [
        [
            call.get("id"),
            as_object(call.get("function")).get("name"),
            as_object(call.get("function")).get("arguments"),
        ]
        for call in list_objects(message.get("tool_calls"))
    ]
    return [role, text or None, message.get("tool_call_id"), calls]
