"""The revisions of the renderer, by name.

A renderer turns the blocks of a snapshot into a request to a provider: messages, tools, response schemas. It is a
pure function, and never changed once released: rendering a snapshot again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from traceforge.canon import JSON
from traceforge.context.model.cache_keys import Runtime
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import Target
from traceforge.context.model.revisions import select_revision
from traceforge.context.responses.rendered_request import RenderedPrompt, RenderedRequest
from traceforge.context.responses.rr_1 import RR1
from traceforge.wire.endpoints import Dialect


class Renderer(Protocol):
    """One revision of the renderer."""

    revision: str

    def render(
        self, blocks: Sequence[ContentBlock], dialect: Dialect, parameters: Mapping[str, JSON] | None = None
    ) -> RenderedPrompt:
        """The messages and parameters of a call; `parameters` override those of the blocks.

        Raises:
            StoreRefused: a block cannot be sent to a model.
        """
        ...

    def encode(self, prompt: RenderedPrompt, dialect: Dialect, model: str) -> RenderedRequest:
        """The request that a model of the dialect is sent."""
        ...

    def name_serialization(self, dialect: Dialect) -> str:
        """How tools and response schemas are written for the dialect."""
        ...


_RENDERERS: tuple[Renderer, ...] = (RR1(),)
RENDERER_REVISIONS = tuple(renderer.revision for renderer in _RENDERERS)
DEFAULT_RENDERER = "rr_1"


def find_renderer(revision: str | None = None) -> Renderer:
    """The renderer of this revision, or of the default one.

    Raises:
        StoreRefused: this version of TraceForge does not have the revision.
    """
    name = DEFAULT_RENDERER if revision is None else revision
    return select_revision(
        _RENDERERS, name, "renderer", reason="unknown_renderer_revision", param="renderer_revision"
    )


def target_runtime(target: Target, renderer: Renderer) -> Runtime:
    """What is known about the software behind a target: what its release declares, and the renderer."""
    serialization = renderer.name_serialization(Dialect(target.provider))
    return Runtime(
        tokenizer_revision=target.tokenizer_revision,
        chat_template_revision=target.chat_template_revision,
        tool_serialization_revision=serialization,
        response_schema_serialization_revision=serialization,
        renderer_revision=renderer.revision,
        model_revision=target.revision,
    )
