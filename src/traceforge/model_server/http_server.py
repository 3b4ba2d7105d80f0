"""HTTP: a thread for each connection, the paths of all four providers on one port.

`GET /requests` says how many generation calls were served. Everything else that is not one of them is a 404.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from traceforge.model_server import anthropic_api, gemini_api, ollama_api, openai_api, responses_api
from traceforge.model_server.provider_io import Reply, Request

# The end of a path says what is asked, whatever the base URL has in front of it.
ROUTES: list[tuple[str, Callable[[Request], Reply]]] = [
    (r"/chat/completions", openai_api.chat),
    (r"/responses", responses_api.responses),
    (r"/completions", openai_api.completions),
    (r"/embeddings", openai_api.embeddings),
    (r"/messages", anthropic_api.messages),
    (r"/models/[^/:]+:generateContent", gemini_api.generate),
    (r"/models/[^/:]+:streamGenerateContent", gemini_api.stream),
    (r"/models/[^/:]+:embedContent", gemini_api.embed),
    (r"/models/[^/:]+:batchEmbedContents", gemini_api.embed_batch),
    (r"/api/chat", ollama_api.chat),
    (r"/api/generate", ollama_api.generate),
    (r"/api/embed", ollama_api.embed),
]


class BadRequest(Exception):
    """A request that no provider would answer."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class ModelServer(ThreadingHTTPServer):
    """The server; `url` is where it listens, `served` how many generation calls it has answered."""

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

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        """Answer a POST, and count it."""
        route = next((handler for end, handler in ROUTES if re.search(f"{end}/?$", path)), None)
        if route is None:
            raise BadRequest(f"there is nothing at {path}", 404)
        try:
            body = json.loads(data, parse_float=_number)
        except ValueError as error:
            raise BadRequest(f"the body is no JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadRequest("the body is no JSON object")
        try:
            reply = route(Request(path, query, body, self.salt))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadRequest(f"the request has not the shape of {path}: {error!r}") from error
        with self._counting:
            self.served += 1
        return reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ModelServer

    def do_POST(self) -> None:
        """A generation call."""
        path, _, query = self.path.partition("?")
        try:
            reply = self.server.reply(path, query, self._read())
        except BadRequest as error:
            reply = _refusal(error)
        self._write(reply)

    def do_GET(self) -> None:
        """The count."""
        if self.path == "/requests":
            self._write(Reply([json.dumps({"requests": self.server.served}).encode()]))
        else:
            self._write(_refusal(BadRequest(f"there is nothing at {self.path}", 404)))

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b"".join(iter(self._read_chunk, b""))
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding == "gzip":
            return gzip.decompress(data)
        if encoding != "identity":
            raise BadRequest(f"bodies in {encoding} are not read here", 415)
        return data

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _write(self, reply: Reply) -> None:
        self.send_response_only(reply.status)  # no Date: an answer is the same every time
        self.send_header("content-type", reply.media_type)
        if not reply.streaming:
            self.send_header("content-length", str(sum(map(len, reply.pieces))))
            self.end_headers()
            self.wfile.write(b"".join(reply.pieces))
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for piece in [*reply.pieces, b""]:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        except ConnectionError:  # SDKs close a stream at its last event, before the end of the body
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the base class's
        """Say nothing: stdout is the URL, stderr is for what goes wrong."""


def _number(text: str) -> int | float:
    """300.0 asks the same as 300."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _refusal(error: BadRequest) -> Reply:
    """In a shape that every SDK finds its message in."""
    told = {
        "type": "invalid_request_error",
        "message": str(error),
        "code": error.status,
        "status": "INVALID_ARGUMENT",
    }
    return Reply([json.dumps({"type": "error", "error": told}).encode()], status=error.status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the URL is the first line on stdout."""
    parser = argparse.ArgumentParser(prog="model_server", description="A model server without a model.")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--salt", default="", help="any text: another one gives other answers to the same requests")
    chosen = parser.parse_args(arguments)
    with ModelServer(chosen.port, chosen.salt) as server:
        print(server.url, flush=True)
        try:
            server.serve_forever(poll_interval=0.05)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    return 0
