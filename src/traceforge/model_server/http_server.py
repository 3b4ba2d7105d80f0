"""The HTTP server: the paths of all five providers on one port, a thread for each connection.

`GET /requests` tells how many model calls were served. Any other path is a 404.

Never: answers a page of another origin in a browser, waits for ever, or reads a body without end.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from traceforge.model_server import (
    fake_anthropic,
    fake_bedrock,
    fake_gemini,
    fake_ollama,
    fake_openai,
    fake_responses,
)
from traceforge.model_server.provider_io import ApiReply, ApiRequest, BadRequest
from traceforge.terminal import print_text

BODY_BYTES_MAX = 32 << 20  # What OpenAI and Anthropic accept at most, also after decompression.
LINE_BYTES_MAX = 1024  # Of a line with the size of a chunk.
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
CLIENT_SECONDS_MAX = 120.0  # A client that sends or takes nothing for so long has gone.

# By the end of the path, because base URLs have different beginnings.
ROUTES: list[tuple[str, Callable[[ApiRequest], ApiReply], Callable[[BadRequest], Any]]] = [
    (r"/chat/completions", fake_openai.chat, fake_openai.error_body),
    (r"/responses", fake_responses.responses, fake_openai.error_body),
    (r"/completions", fake_openai.completions, fake_openai.error_body),
    (r"/embeddings", fake_openai.embeddings, fake_openai.error_body),
    (r"/messages", fake_anthropic.messages, fake_anthropic.error_body),
    (r"/model/[^/]+/converse", fake_bedrock.converse, fake_bedrock.error_body),
    (r"/model/[^/]+/converse-stream", fake_bedrock.converse_stream, fake_bedrock.error_body),
    (r"/models/[^/:]+:generateContent", fake_gemini.generate, fake_gemini.error_body),
    (r"/models/[^/:]+:streamGenerateContent", fake_gemini.stream, fake_gemini.error_body),
    (r"/models/[^/:]+:embedContent", fake_gemini.embed, fake_gemini.error_body),
    (r"/models/[^/:]+:batchEmbedContents", fake_gemini.embed_batch, fake_gemini.error_body),
    (r"/api/chat", fake_ollama.chat, fake_ollama.error_body),
    (r"/api/generate", fake_ollama.generate, fake_ollama.error_body),
    (r"/api/embed", fake_ollama.embed, fake_ollama.error_body),
]


class ModelServer(ThreadingHTTPServer):
    """The server; `url` is where it listens, `served` how many model calls it has answered."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, salt: str = "") -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.salt = salt
        self.served = 0
        self._counting = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, except for a client that has gone: the terminal may be that of a tutorial."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def reply(self, path: str, query: str, data: bytes) -> ApiReply:
        """The reply to a POST, which is counted.

        Raises:
            BadRequest: the path is unknown, or the body does not fit it.
        """
        route = next((handler for end, handler, _ in ROUTES if re.search(f"{end}/?$", path)), None)
        if route is None:
            raise BadRequest(f"there is nothing at {path}", 404)
        try:
            body = json.loads(data, parse_float=_number)
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadRequest("the body is not a JSON object")
        try:
            reply = route(ApiRequest(path, query, body, self.salt))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise BadRequest(f"the body is not a request for {path}: {error!r}") from error
        with self._counting:
            self.served += 1
        return reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = CLIENT_SECONDS_MAX
    server: ModelServer

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        try:
            self._check_origin()
            reply = self.server.reply(path, query, self._read())
        except BadRequest as error:
            reply = _error_reply(error, path)
        self._write(reply)

    def do_GET(self) -> None:
        """Serve `/requests`, the number of model calls."""
        if self.path == "/requests":
            self._write(ApiReply([json.dumps({"requests": self.server.served}).encode()]))
        else:
            self._write(_error_reply(BadRequest(f"there is nothing at {self.path}", 404)))

    def _check_origin(self) -> None:
        """Refuse pages of other origins: any page in a browser of this machine can send a POST to loopback."""
        origin = urlsplit(self.headers.get("origin", ""))
        if origin.geturl() and origin.hostname not in LOOPBACK_NAMES:
            self.close_connection = True  # Its body is not read.
            raise BadRequest("a page of another origin may not call this server", 403)

    def _read(self) -> bytes:
        data = self._read_body()
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding == "gzip":
            with gzip.open(BytesIO(data)) as file:
                return self._limit(file.read(BODY_BYTES_MAX + 1))
        if encoding != "identity":
            raise BadRequest(f"Content-Encoding {encoding} is not supported", 415)
        return data

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(self._check_size(int(self.headers.get("content-length") or 0)))
        data = bytearray()
        while chunk := self._read_chunk(len(data)):
            data += chunk
        return bytes(data)

    def _read_chunk(self, read_before: int) -> bytes:
        size = int(self.rfile.readline(LINE_BYTES_MAX).split(b";")[0], 16)
        self._check_size(read_before + size)
        data = self.rfile.read(size)
        self.rfile.readline(LINE_BYTES_MAX)
        return data

    def _check_size(self, size: int) -> int:
        if not 0 <= size <= BODY_BYTES_MAX:
            self.close_connection = True  # Its body is not read.
            raise BadRequest(f"the body is larger than {BODY_BYTES_MAX} bytes", 413)
        return size

    def _limit(self, data: bytes) -> bytes:
        self._check_size(len(data))
        return data

    def _write(self, reply: ApiReply) -> None:
        self.send_response_only(reply.status)  # No Date: a response is the same every time.
        self.send_header("content-type", reply.media_type)
        if not reply.is_stream:
            self.send_header("content-length", str(sum(map(len, reply.chunks))))
            self.end_headers()
            self.wfile.write(b"".join(reply.chunks))
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for chunk in [*reply.chunks, b""]:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        except ConnectionError:  # SDKs close a stream at its last event, before the end of the body.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        """Log no requests: stdout has the URL, stderr is for errors."""


def _number(text: str) -> int | float:
    """300.0 and 300 are the same request."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _error_reply(error: BadRequest, path: str = "") -> ApiReply:
    """The error in the shape of the provider that the path belongs to; elsewhere, one that every SDK can read."""
    write = next((write for end, _, write in ROUTES if re.search(f"{end}/?$", path)), _common_error_body)
    return ApiReply([json.dumps(write(error)).encode()], status=error.status)


def _common_error_body(error: BadRequest) -> dict[str, Any]:
    body = {
        "type": "invalid_request_error",
        "message": str(error),
        "code": error.status,
        "status": "INVALID_ARGUMENT",
    }
    return {"type": "error", "error": body}


@contextmanager
def serve_local_model() -> Iterator[str]:
    """Serve on a free port of loopback in a thread while the block runs; yields the base URL for an OpenAI client."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"{server.url}/v1"
        finally:
            server.shutdown()
            thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the URL is the first line on stdout."""
    parser = argparse.ArgumentParser(prog="model_server", description="Run a model server without a model.")
    parser.add_argument(
        "--port", type=int, default=8080, help="the port to listen on; 0 takes a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--salt", default="", help="any text; a different salt gives different answers to the same requests"
    )
    options = parser.parse_args(arguments)
    with ModelServer(options.port, options.salt) as server:
        print_text(server.url)
        try:
            server.serve_forever(poll_interval=0.05)
        except KeyboardInterrupt:
            print_text("stopped", err=True)
    return 0
