"""An application whose clients cannot be recorded: gRPC, through xAI's SDK and by itself, and pycurl.

`ask.py` asks a model over HTTP first, so that a run has something to replay. What each client did is printed.
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from concurrent import futures
from typing import Any

SERVICE = "/google.pubsub.v1.Publisher"


def attempt(name: str, call: Callable[[], Any]) -> None:
    try:
        print(name, "answered", call(), flush=True)
    except Exception as exc:
        print(name, type(exc).__name__, *str(exc).split("\n")[:1], flush=True)


def serve() -> tuple[Any, int]:
    """A server that sends back what it gets, once or twice."""
    import grpc

    class Echo(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method.endswith("Stream"):
                return grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request, request]))
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def call_grpc(target: str) -> None:
    import grpc

    async def ask() -> bytes:
        async with grpc.aio.insecure_channel(target) as aio:
            return await aio.unary_unary(f"{SERVICE}/Publish")(b"x", timeout=3)  # type: ignore[no-any-return]

    async def ask_stream() -> list[bytes]:
        async with grpc.aio.insecure_channel(target) as aio:
            return [piece async for piece in aio.unary_stream(f"{SERVICE}/PublishStream")(b"x", timeout=3)]

    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary(f"{SERVICE}/Publish")
        attempt("unary", lambda: call(b"x", timeout=3))
        attempt("with_call", lambda: call.with_call(b"x", timeout=3)[0])
        attempt("future", lambda: call.future(b"x", timeout=3).result())
        attempt("stream", lambda: list(channel.unary_stream(f"{SERVICE}/PublishStream")(b"x", timeout=3)))
        attempt("aio", lambda: asyncio.run(ask()))
        attempt("aio stream", lambda: asyncio.run(ask_stream()))


def call_xai() -> None:
    from xai_sdk import Client
    from xai_sdk.chat import user

    chat = Client(api_key="xai-0123456789abcdef", timeout=3).chat.create(model="grok-4", messages=[user("Hello")])
    attempt("xai", lambda: chat.sample().content)
    attempt("xai stream", lambda: [piece for _, piece in chat.stream()])


def call_pycurl(url: str) -> None:
    import pycurl

    def run(several: bool = False) -> int:
        handle = pycurl.Curl()
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.WRITEDATA, io.BytesIO())
        handle.setopt(pycurl.TIMEOUT, 3)
        assert isinstance(handle, pycurl.Curl)
        if several:
            multi = pycurl.CurlMulti()
            multi.add_handle(handle)
            while multi.perform()[1]:
                multi.select(1)
        else:
            handle.perform()
        return int(handle.getinfo(pycurl.RESPONSE_CODE))

    attempt("pycurl", run)
    attempt("pycurl multi", lambda: run(several=True))


def call_here(url: str) -> None:
    """Servers of this machine that are no models."""
    _, port = serve()
    call_grpc(f"127.0.0.1:{port}")
    call_pycurl(f"{url}/page")


def call_away() -> None:
    """A model, and other servers, far away."""
    call_xai()
    call_grpc("pubsub.example.com:443")
    call_pycurl("https://api.openai.com/v1/models")


if __name__ == "__main__":
    call_here(sys.argv[1]) if sys.argv[1:] else call_away()
