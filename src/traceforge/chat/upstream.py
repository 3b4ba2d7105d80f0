"""Asking the model.

In: the body of a request. Out: the text of the answer. Never: an empty text, a second try (a model that was asked
twice may have been paid twice), a redirect that is followed (the key would go with it), or a wait without an end.

A call has a connection of its own: an answer takes seconds, and of one that was kept nobody knows whether it still
stands. Two calls with equal bodies are equal on the wire, head and body.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from httptools import HttpResponseParser

from traceforge.canon import JSONObject
from traceforge.capture.proxy.body import UNTIL_CLOSE, BadBody, UntilClose, open_body
from traceforge.capture.proxy.head import RESPONSE_BYTES_MAX, BadHead, HeadReader, ResponseHead
from traceforge.capture.proxy.pool import connect_problem
from traceforge.chat.address import Address
from traceforge.chat.refusals import Code, Refusal
from traceforge.exchange import find_header
from traceforge.redact import Redactor
from traceforge.wire.answer import Answer, Ending, read_answer
from traceforge.wire.encoding import EncodingState, decode_body
from traceforge.wire.unified import obj, objects

TIMEOUT_S = 120.0  # From the first byte of the request to the last of the answer.
ANSWER_BYTES_MAX = 8 << 20  # Far more than a model writes.
REASON_CHARACTERS_MAX = 300
REASON_READ_MAX = 10_000  # What is searched for secrets before it is cut: half of a key is not recognised.
_PIECE_BYTES = 1 << 16
_NOTHING = object()  # llhttp calls nobody back: it only judges.


class Upstream:
    """The model at one address."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context() if address.tls else None
        self._redactor = Redactor()  # A provider may repeat a key in the sentence that refuses it.

    @property
    def developer_role(self) -> str:
        """How this dialect calls the one who speaks second."""
        return self._address.developer_role

    async def reply(self, body: bytes) -> str:
        """What the model says.

        Raises:
            Refusal: 504 where it takes too long, else 502; the message says why.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                head, data = await self._exchange(body)
        except TimeoutError:
            told = f"the model gave no answer within {self._timeout_s:g} seconds"
            raise Refusal(Code.UPSTREAM_TIMEOUT, told, hint="Ask again, or start with a longer --timeout.") from None
        except (BadHead, BadBody) as exc:
            raise Refusal(Code.UPSTREAM_UNREADABLE, f"the model's server speaks malformed HTTP: {exc}") from None
        return self._read(head, data)

    async def _exchange(self, body: bytes) -> tuple[ResponseHead, bytes]:
        async with self._connected() as (reader, writer):
            try:
                writer.write(self._head(len(body)) + body)
                return await _receive(reader)
            except OSError as exc:
                told = "the model's server broke the connection"
                raise Refusal(Code.UPSTREAM_BROKE_OFF, f"{told}: {connect_problem(exc)[1]}") from None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        address = self._address
        name = address.host if self._tls else None
        try:
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=self._tls, server_hostname=name, limit=_PIECE_BYTES
            )
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as exc:
            told = f"the model's server cannot be reached: {connect_problem(exc)[1]}"
            raise Refusal(Code.UPSTREAM_UNREACHABLE, told, hint="Is it running, and is --upstream right?") from None
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    def _head(self, length: int) -> bytes:
        address = self._address
        lines = [
            f"POST {address.path} HTTP/1.1",
            f"Host: {address.authority}",
            "User-Agent: traceforge-chat",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            f"Content-Length: {length}",
            "Connection: close",
            *([f"Authorization: {address.key}"] if address.key else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _read(self, head: ResponseHead, data: bytes) -> str:
        headers = tuple(head.headers)
        decoded = decode_body(data, find_header(headers, "content-encoding"), limit=ANSWER_BYTES_MAX)
        if decoded.state is EncodingState.FAILED:
            raise Refusal(Code.UPSTREAM_UNREADABLE, "the model's answer is compressed in a way that cannot be undone")
        kind = find_header(headers, "content-type")
        answer = read_answer(self._address.endpoint, head.status, kind, decoded.body)
        if not 200 <= head.status < 300 or answer.ending is Ending.ERROR:
            raise Refusal(Code.UPSTREAM_REFUSED, self._why(head.status, answer))
        if answer.ending is Ending.CUT:
            raise Refusal(Code.UPSTREAM_BROKE_OFF, "the model's answer was cut off before its end")
        if answer.unified is None:
            raise Refusal(Code.UPSTREAM_UNREADABLE, "the model's answer is not what its endpoint answers with")
        return _text(answer.unified)

    def _why(self, status: int, answer: Answer) -> str:
        told = f"the model's server answered {status} {_phrase(status)}".rstrip()
        said = str((answer.error or {}).get("message") or "")
        said = " ".join(self._redactor.text(said[:REASON_READ_MAX]).split())[:REASON_CHARACTERS_MAX]
        return f"{told}: {said}" if said else told


async def _receive(reader: asyncio.StreamReader) -> tuple[ResponseHead, bytes]:
    """Read one answer."""
    head, rest = await _receive_head(reader)
    body = open_body(head.length, padded=True)
    pieces: list[bytes] = []
    size = 0
    while not body.done:
        if not rest:
            rest = await reader.read(_PIECE_BYTES)
            if not rest:
                if head.length == UNTIL_CLOSE and isinstance(body, UntilClose):
                    break
                raise Refusal(Code.UPSTREAM_BROKE_OFF, "the model's server closed the connection within its answer")
        rest = body.feed(rest)
        pieces += body.payload
        size += sum(map(len, body.payload))
        if size > ANSWER_BYTES_MAX:
            raise Refusal(Code.UPSTREAM_UNREADABLE, f"the model's answer is larger than {ANSWER_BYTES_MAX} bytes")
    return head, b"".join(pieces)


async def _receive_head(reader: asyncio.StreamReader) -> tuple[ResponseHead, bytes]:
    """Read the head of the answer, and pass over those that only announce one."""
    rest = b""
    while True:
        gather = HeadReader(HttpResponseParser(_NOTHING), RESPONSE_BYTES_MAX)
        found = gather.feed(rest) if rest else None
        while found is None:
            data = await reader.read(_PIECE_BYTES)
            if not data:
                told = "the model's server closed the connection before it answered"
                raise Refusal(Code.UPSTREAM_BROKE_OFF, told)
            found = gather.feed(data)
        head, rest = ResponseHead(found, "POST"), gather.rest
        if head.status >= 200:
            return head, rest
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise BadHead(502, "it switched protocols, and was not asked to")


def _text(unified: JSONObject) -> str:
    """The text of an answer.

    Raises:
        Refusal: it has none.
    """
    choice = next(iter(objects(unified.get("choices"))), {})
    message = obj(choice.get("message"))
    for name in ("content", "refusal"):
        said = message.get(name)
        if isinstance(said, str) and said:
            return said
    ended = choice.get("finish_reason")
    why = f" (it ended with {ended[:40]})" if isinstance(ended, str) else ""
    what = "tool calls and no text" if message.get("tool_calls") else "no text"
    raise Refusal(Code.UPSTREAM_EMPTY, f"the model answered with {what}{why}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
