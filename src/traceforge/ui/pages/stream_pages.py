"""The stream player: a streamed answer as it came, at its recorded pace."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from traceforge.canon import json_bytes
from traceforge.errors import NotFound
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.page_context import AreaPages, PageContext, PageRoute
from traceforge.ui.plots import stream_gaps
from traceforge.ui.views.stream_view import StreamView, summarize_gaps, view_stream
from traceforge.ui.views.text_view import fold_text, visible_html


async def show_stream(request: Request, context: PageContext) -> Response:
    """The player, with a plot of the gaps between chunks."""
    reference = request.path_params["trace_id"]
    summary, stream = await context.read_traces(lambda store: read_stream(store, reference))

    def render() -> Response:
        folded = fold_text(stream.text)
        return context.render(
            request,
            "traces/stream.html",
            area="traces",
            summary=summary,
            stream=stream,
            head_html=visible_html(folded.head),
            is_folded=bool(folded.tail),
            gaps=summarize_gaps(stream.times_ms),
            plot=stream_gaps(stream.times_ms, "Time between one chunk and the next"),
        )

    return await context.in_thread(render)


async def show_frames(request: Request, context: PageContext) -> Response:
    """The frames for the script of the player."""
    reference = request.path_params["trace_id"]
    _, stream = await context.read_traces(lambda store: read_stream(store, reference))
    body = await context.in_thread(lambda: json_bytes({"times": [*stream.times_ms], "texts": [*stream.texts]}))
    return Response(body, media_type="application/json")


def read_stream(store: TraceStore, reference: str) -> tuple[TraceSummary, StreamView]:
    """A trace and the frames of its answer.

    Raises:
        NotFound: the answer was not streamed.
    """
    row = store.load_row(reference)
    chunks = store.load_chunks(row)
    if not chunks:
        message = f"the answer of trace {row.summary.id} was not streamed: it has no chunks"
        raise NotFound(message, hint="The page of the trace has the whole answer.")
    return row.summary, view_stream(chunks)


PAGES = AreaPages(
    None,
    (
        PageRoute("/traces/{trace_id}/stream", show_stream),
        PageRoute("/traces/{trace_id}/stream/frames", show_frames),
    ),
)
