"""Packing events: an error names the field of the caller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from traceforge.context.history.events import pack_event
from traceforge.context.model.inputs import NewEvent
from traceforge.context.model.objects import EventType
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.errors import StoreRefused


class _OneArtifact:
    def load(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(id="art_1", kind="document+json", content_digest="sha256:0")


TX = cast("StoreTransaction", _OneArtifact())


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("source", [{"payload_ref": "art_1"}, {"content": "hello"}])
def test_metadata_that_cannot_be_stored_is_refused_by_the_field_of_the_caller(source: dict[str, str]) -> None:
    event = NewEvent(event_type=EventType.TOOL_RESULT, metadata=nested(1000), **source)

    with pytest.raises(StoreRefused) as refused:
        pack_event(TX, event, "messages")

    assert "messages.metadata cannot be stored: nested too deeply" == refused.value.message


def test_an_event_with_an_artifact_has_its_own_type_and_the_form_of_the_artifact() -> None:
    packed = pack_event(TX, NewEvent(event_type=EventType.TOOL_RESULT, payload_ref="art_1"))

    assert ("tool_result+json", "art_1", None) == (packed.kind, packed.payload_ref, packed.content)
