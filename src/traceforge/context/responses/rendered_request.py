"""A prompt as a renderer gives it, the request it becomes, and the digest of that request.

The digest covers the path below the provider's address and the JSON text of the body. It covers no address, no header
and no key. The request is that of an answer in one piece: whether an answer is streamed is up to its reader.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.canon import Digest, JSONObject, digest_fields, json_bytes

REQUEST_DOMAIN = "traceforge.request.v1"


class RenderedPrompt(NamedTuple):
    """The messages and parameters for an adapter."""

    messages: list[JSONObject]  # In the unified view: `wire.request_encoder` encodes them for the dialect.
    parameters: JSONObject  # In the dialect of the provider.


class RenderedRequest(NamedTuple):
    """The request that a provider is sent."""

    path: str
    body: JSONObject

    @property
    def digest(self) -> Digest:
        """Identifies the request by its bytes."""
        return digest_fields(REQUEST_DOMAIN, [("path", self.path), ("body", json_bytes(self.body).decode())])
