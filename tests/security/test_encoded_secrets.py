"""No encoding, framing or division hides a key from redaction: what cannot be looked into is not stored."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from urllib.parse import quote, unquote_to_bytes

import brotli
import pytest
import zstandard
from msgspec.structs import replace

from support.exchanges import make_exchange, trace_id
from support.fake_secrets import draw
from support.planted_secrets import ANSWER, BOUNDARY, PROMPT, decode_everything, make_multipart, read_disk, record
from support.secret_shapes import SHAPES, make_shape
from traceforge.exchange import Caller, CallOutcome, Exchange
from traceforge.redact import encoded_keys
from traceforge.redact.encoded_keys import INNER_PREFIXES, PREFIXES
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.wire.binary_frames import Frame, read_frames

REDACTOR = Redactor()
EVENT_STREAM = "application/vnd.amazon.eventstream"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


def make_key(seed: int = 1) -> str:
    return "sk-proj-" + draw(Random(seed), 48)


def cut(text: str, size: int = 6) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text), size))


def is_stored(folder: Path, key: str) -> bool:
    """Whether the key, its end, or several of the pieces into which `cut` divides it are on the disk."""
    pieces = [piece.encode() for piece in cut(key) if len(piece) == 6]
    for data in decode_everything(read_disk(folder)):
        if key.encode() in data or key[-12:].encode() in data or sum(piece in data for piece in pieces) > 2:
            return True
    return False


def prompt_with(text: str) -> Exchange:
    body = {"model": "m", "messages": [{"role": "user", "content": f"see {text} ok"}]}
    return make_exchange(request=body, answer=ANSWER)


def header(name: str, value: str) -> bytes:
    """A header of a frame with a text."""
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()


HEADERS = header(":event-type", "chunk") + header(":content-type", "application/json")


def frame(value: object) -> bytes:
    return Frame(HEADERS, json.dumps(value).encode()).encode()


def bedrock(value: object) -> bytes:
    """A frame as Bedrock sends it: JSON in base64 in JSON."""
    return frame({"bytes": base64.b64encode(json.dumps(value).encode()).decode(), "p": "abc"})


ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 of a sentence": lambda text: base64.b64encode(f"use {text} now".encode()).decode(),
    "base64 after one byte": lambda text: base64.b64encode(f'"{text}"'.encode()).decode(),
    "base64 after two bytes": lambda text: base64.b64encode(f": {text}".encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(f"a long line before it: {text}".encode()).decode(),
    "hexadecimal digits": lambda text: text.encode().hex(),
    "upper-case hexadecimal digits": lambda text: text.encode().hex().upper(),
    "a data URL": lambda text: f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoded_key_is_not_stored(name: str, tmp_path: Path) -> None:
    """In a prompt, in a header and in a member that is nothing but the key."""
    key = make_key()
    encoded = ENCODINGS[name](key)
    exchanges = [
        prompt_with(encoded),
        make_exchange(request=PROMPT, answer=ANSWER, headers=[("X-Note", encoded.replace("\n", ""))]),
        make_exchange(request={"model": "m", "metadata": {"note": encoded}}, answer=ANSWER),
    ]

    record(tmp_path, [replace(exchange, id=trace_id(number)) for number, exchange in enumerate(exchanges)])

    assert not is_stored(tmp_path, key)


def test_only_the_key_is_cut_out_of_base64() -> None:
    """A decoder that passes over brackets still reads the rest."""
    encoded = base64.b64encode(f"use {make_key()} now, and all that follows it".encode()).decode()

    cleaned = REDACTOR.redact_text(f"see {encoded}!")

    assert base64.b64decode(cleaned.removeprefix("see ").removesuffix("!")).endswith(b"and all that follows it")


def test_places_that_begin_like_encoded_keys_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may send nothing else: a place that begins no key is not decoded as far as a key could reach."""
    text = b"c2st" * 2_000
    decoded_bytes = 0
    decode = encoded_keys._decode_run

    def count_bytes(run: re.Match[bytes]) -> bytes:
        nonlocal decoded_bytes
        decoded_bytes += len(run[0])
        return decode(run)

    monkeypatch.setattr(encoded_keys, "_decode_run", count_bytes)

    assert text == REDACTOR.redact_body(text).value
    assert 0 < decoded_bytes < 50 * len(text)


def test_base64_without_a_key_is_unchanged() -> None:
    """Images, hashes, words that end like a prefix, and the encoded prefix alone."""
    source = Random(4)
    texts = [
        source.randbytes(60_000),
        b"a risk-management-plan-of-2024 and a task-list-for-everybody",
        b"sk-",
        b"AIza",
    ]
    for prefix in PREFIXES:
        texts += [prefix.encode(), b"x" + prefix.encode() + b"of a word"]
    for data in texts:
        text = f"see {base64.b64encode(data).decode()} and {data.hex()} ok"

        assert text == REDACTOR.redact_text(text)


def test_every_inner_prefix_is_a_prefix() -> None:
    assert set(INNER_PREFIXES) <= set(PREFIXES)


STREAMS: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "plain data": ("text/event-stream", lambda text: b"".join(b"data: %b\n\n" % p.encode() for p in cut(text))),
    "without a space": ("text/event-stream", lambda text: b"".join(b"data:%b\n\n" % p.encode() for p in cut(text))),
    "with names and ids": (
        "text/event-stream",
        lambda text: b"".join(b"event: t\r\nid: 1\r\ndata: %b\r\n\r\n" % p.encode() for p in cut(text)),
    ),
    "strings": ("text/event-stream", lambda text: b"".join(b'data: "%b"\n\n' % p.encode() for p in cut(text))),
    "among events": (
        "text/event-stream",
        lambda text: b"".join(b'event: ping\ndata: {"n": 1}\n\ndata: %b\n\n' % p.encode() for p in cut(text)),
    ),
    "without a media type": ("", lambda text: b"".join(b"data:%b\n\n" % p.encode() for p in cut(text))),
    "lines of strings": ("application/x-ndjson", lambda text: b"".join(b'"%b"\n' % p.encode() for p in cut(text))),
    "lines of lists": ("application/x-ndjson", lambda text: b"".join(b'["%b"]\n' % p.encode() for p in cut(text))),
    "lines of objects": (
        "application/octet-stream",
        lambda text: b"".join(b'{"tok": "%b"}\n' % p.encode() for p in cut(text)),
    ),
    "frames": (EVENT_STREAM, lambda text: b"".join(frame({"delta": {"text": piece}}) for piece in cut(text))),
    "frames with JSON in base64": (
        EVENT_STREAM,
        lambda text: b"".join(bedrock({"index": 0, "delta": {"text": piece}}) for piece in cut(text)),
    ),
    "frames with text": (
        EVENT_STREAM,
        lambda text: b"".join(Frame(HEADERS, piece.encode()).encode() for piece in cut(text)),
    ),
    "frames in frames": (
        EVENT_STREAM,
        lambda text: b"".join(Frame(b"", bedrock({"delta": {"text": text}})).encode() for text in (text[:20], text)),
    ),
    "a header of a frame": (EVENT_STREAM, lambda text: Frame(header(":error-message", text), b"{}").encode()),
    "a frame that was cut off": (EVENT_STREAM, lambda text: bedrock({"a": "b"}) + bedrock({"text": text})[:-9]),
    "a frame without a media type": ("", lambda text: bedrock({"text": text})),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_key_that_any_stream_divides_is_not_stored(name: str, tmp_path: Path) -> None:
    """In the body of an answer, and of a request."""
    media_type, build = STREAMS[name]
    key = make_key()
    body = build(f"it is {key} ok")
    exchanges = [
        make_exchange(request=PROMPT, answer=body, media_type=media_type, cuts=range(0, len(body), 37)),
        make_exchange(request=body, answer=ANSWER, request_media_type=media_type),
    ]

    record(tmp_path, [replace(exchange, id=trace_id(number)) for number, exchange in enumerate(exchanges)])

    assert not is_stored(tmp_path, key)


def test_the_data_of_plain_events_is_cut_at_the_same_places() -> None:
    key = make_key()
    body = f"data: it is {key[:20]}\n\ndata: {key[20:]} ok\n\ndata: [DONE]\n\n".encode()

    cleaned = REDACTOR.redact_chunks([body[:30], body[30:]], "text/event-stream").value

    assert f"data: it is {REDACTED}\n\ndata:  ok\n\ndata: [DONE]\n\n".encode() == b"".join(cleaned)


def test_a_redacted_frame_is_a_valid_frame() -> None:
    """With new lengths and checksums, and all that is no secret."""
    body = bedrock({"text": make_key(), "index": 7}) + frame({"password": "mellon", "stop": "end"})

    cleaned = REDACTOR.redact_body(body, EVENT_STREAM).value

    (first, second), rest = read_frames(cleaned)
    inner = json.loads(base64.b64decode(json.loads(first.payload)["bytes"]))
    assert (b"", HEADERS, {"text": REDACTED, "index": 7}) == (rest, first.headers, inner)
    assert {"password": REDACTED, "stop": "end"} == json.loads(second.payload)
    assert all(Frame(*item).encode() in cleaned for item in (first, second))


def test_a_header_that_its_markers_make_too_long_is_withheld() -> None:
    value = (b"- " * 40_000)[: 65_535 - 170] + b"password=abcdef1;" * 10
    header = b"\x01h\x07" + struct.pack(">H", len(value)) + value

    (cleaned,), rest = read_frames(REDACTOR.redact_body(Frame(header, b"{}").encode(), EVENT_STREAM).value)

    assert (b"\x01h\x07\x00\x0a[REDACTED]", b"{}", b"") == (*cleaned, rest)


def test_a_frame_hides_no_key_in_a_member_that_another_of_its_name_replaced() -> None:
    text = f'{{"text":"{make_key()}","text":"hello"}}'.encode()
    outer = b'{"bytes":"%b","bytes":"e30="}' % base64.b64encode(text)
    inner = b'{"bytes":"%b"}' % base64.b64encode(text)

    payloads = [
        read_frames(REDACTOR.redact_body(Frame(HEADERS, payload).encode(), EVENT_STREAM).value)[0][0].payload
        for payload in (text, outer, inner)
    ]

    hello = base64.b64encode(b'{"text":"hello"}').decode()
    assert [{"text": "hello"}, {"bytes": "e30="}, {"bytes": hello}] == [json.loads(payload) for payload in payloads]


def test_frames_without_a_secret_are_unchanged() -> None:
    source = Random(9)
    audio = base64.b64encode(source.randbytes(3_000)).decode()
    body = bedrock({"audio": audio}) + frame({"text": "hello"}) + Frame(b"", source.randbytes(999)).encode()

    assert body == REDACTOR.redact_body(body, EVENT_STREAM).value


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "brotli": brotli.compress,
    "zstd": zstandard.compress,
}


def nest(data: bytes, rounds: int) -> tuple[bytes, str]:
    """Multipart bodies inside of each other, and the media type of the outermost."""
    media_type = "application/octet-stream"
    for number in range(rounds):
        data = make_multipart((f"Content-Type: {media_type}", data), boundary=f"b{number}xyz")
        media_type = f"multipart/mixed; boundary=b{number}xyz"
    return data, media_type


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_compressed_body_hides_no_key(name: str, tmp_path: Path) -> None:
    """Without a header that says so or with a wrong one, in parts at any depth, and compressed many times."""
    key = make_key()
    compress = COMPRESSIONS[name]
    body = json.dumps({"messages": [{"role": "user", "content": "hello " * 10 + key}]}).encode()
    packed = compress(body)
    often = packed
    for _ in range(6):
        often = gzip.compress(often)
    exchanges = [make_exchange(request=data, answer=data, media_type="") for data in (packed, often)]
    exchanges += [
        make_exchange(request=PROMPT, answer=packed, encoding=wrong) for wrong in ("identity", "br", "gzip")
    ]
    for rounds in (1, 3, 4, 5, 7):
        data, media_type = nest(packed, rounds)
        exchanges.append(make_exchange(request=data, answer=ANSWER, request_media_type=media_type))

    record(tmp_path, [replace(exchange, id=trace_id(number)) for number, exchange in enumerate(exchanges)])

    assert not is_stored(tmp_path, key)


def damage(data: bytes) -> bytes:
    """Without its right checksum."""
    return data[:-1] + bytes([data[-1] ^ 1])


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


def small_window(data: bytes) -> bytes:
    """zlib whose first bytes are not those of most."""
    compressor = zlib.compressobj(wbits=9)
    return compressor.compress(data) + compressor.flush()


def part_in(encoding: str, data: bytes) -> bytes:
    return make_multipart((f"Content-Transfer-Encoding: {encoding}", data))


# Bodies whose label says nothing, and that hold the key in another body. Each was once stored as it came.
HIDDEN: dict[str, Callable[[bytes], bytes]] = {
    "brotli in brotli": lambda data: brotli.compress(brotli.compress(data)),
    "deflate in deflate in brotli": lambda data: brotli.compress(raw_deflate(raw_deflate(data))),
    "deflate in zlib": lambda data: zlib.compress(raw_deflate(data)),
    "zlib with a small window, twice": lambda data: small_window(small_window(data)),
    "UTF-16 in deflate": lambda data: raw_deflate(data.decode().encode("utf-16")),
    "a frame in brotli": lambda data: brotli.compress(Frame(b"", data).encode()),
    "zlib with a wrong checksum": lambda data: damage(zlib.compress(data)),
    "zlib with a small window and a wrong checksum": lambda data: damage(small_window(data)),
    "deflate before other bytes": lambda data: raw_deflate(data) + b"\xff\0rest",
    "brotli before other bytes": lambda data: brotli.compress(data) + b"\xff\0rest",
    "gzip in a frame": lambda data: Frame(b"", gzip.compress(data)).encode(),
    "deflate in a frame": lambda data: Frame(b"", raw_deflate(data)).encode(),
    "gzip in the bytes of a frame": lambda data: frame({"bytes": base64.b64encode(gzip.compress(data)).decode()}),
    "a part in a frame": lambda data: Frame(b"", part_in("base64", base64.b64encode(data))).encode(),
    "a part in base64": lambda data: part_in("base64", base64.b64encode(data)),
    "a part in base64 in brotli": lambda data: brotli.compress(part_in("base64", base64.b64encode(data))),
    "a part in zlib": lambda data: part_in("binary", zlib.compress(data)),
    "a part in base64 without padding": lambda data: part_in("base64", base64.b64encode(data + b"!").rstrip(b"=")),
    "a part in two pieces of base64": lambda data: part_in(
        "base64", base64.b64encode(b"x") + base64.b64encode(data + b"!")
    ),
    "a part in base64 with a comment": lambda data: part_in("base64 (as always)", base64.b64encode(data)),
    "a part in an unknown encoding": lambda data: part_in("x-uuencode", binascii.b2a_hex(data)),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("media_type", ["", "text/event-stream", MULTIPART])
def test_a_body_inside_of_others_hides_no_key(name: str, media_type: str, tmp_path: Path) -> None:
    """Whatever the label of the outermost says: what is not looked into is not stored."""
    key = "hvs." + draw(Random(5), 48)
    data = HIDDEN[name](f"use the key {key} for all of them".encode())

    cleaned = REDACTOR.redact_body(data, media_type).value
    chunks = REDACTOR.redact_chunks([data[:9], data[9:]], media_type).value

    for stored in (cleaned, b"".join(chunks)):
        (tmp_path / "stored").write_text(json.dumps({"b64": base64.b64encode(stored).decode()}))
        assert not is_stored(tmp_path, key)


@pytest.mark.parametrize("media_type", ["multipart/mixed", "multipart/mixed; boundary=another"])
def test_a_part_whose_border_no_label_names_hides_no_key(media_type: str) -> None:
    secret = b"hvs." + draw(Random(5), 48).encode()
    body = b"hello\r\n" + part_in("base64", base64.b64encode(b"use " + secret))

    assert base64.b64encode(secret)[:40] not in REDACTOR.redact_body(body, media_type).value
    assert base64.b64encode(b"use [REDACTED]") in REDACTOR.redact_body(body, media_type).value


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_compressed_body_without_a_secret_is_unchanged(name: str) -> None:
    body = COMPRESSIONS[name](json.dumps({"messages": [{"content": "hello " * 20}]}).encode())

    assert body == REDACTOR.redact_body(body, "application/octet-stream").value


def test_bytes_that_are_not_compressed_are_unchanged() -> None:
    source = Random(3)
    for size in (5, 60, 700, 8_000):
        for _ in range(40):
            body = source.randbytes(size)

            assert body == REDACTOR.redact_body(body, "application/octet-stream").value


HEADS = (
    'Content-Disposition: form-data; name="f"; filename="{key}.txt"',
    "Content-Disposition: form-data; name=f; filename*=utf-8''a-{key}.txt",
    'Content-Disposition: form-data; name="{key}"',
    'Content-Disposition: form-data; name="f"\r\nX-Note: {key}',
    'Content-Disposition: form-data; name="f"\r\nX-{key}: 1',
    'Content-Disposition: form-data; name="f"; filename="=?utf-8?B?{encoded}?="',
    'Content-Disposition: form-data; name=f; filename*0="{first}"; filename*1="{second}"',
    "Content-Disposition: form-data; name=f;\r\n filename={key}",
)


@pytest.mark.parametrize("head", HEADS)
def test_the_head_of_a_part_stores_no_key(head: str, tmp_path: Path) -> None:
    key = make_key()
    encoded = base64.b64encode(key.encode()).decode()
    text = head.format(key=key, encoded=encoded, first=key[:14], second=key[14:])
    body = make_multipart((text, b"x"))

    record(tmp_path, [make_exchange(request=body, answer=ANSWER, request_media_type=MULTIPART)])

    assert not is_stored(tmp_path, key)


def _failed(error: str) -> Exchange:
    return make_exchange(request=PROMPT, answer=b"", status=0, outcome=CallOutcome.FAILED, error=error)


def _called(caller: Caller) -> Exchange:
    return make_exchange(request=PROMPT, answer=ANSWER, caller=caller)


LABELS: dict[str, Callable[[str], Exchange]] = {
    "a host": lambda key: make_exchange(f"https://{key.lower()}.example.com/v1/x", PROMPT, ANSWER),
    "a part of a host": lambda key: make_exchange(f"https://api-{key.lower()}.example.com/v1/x", PROMPT, ANSWER),
    "a user": lambda key: make_exchange(f"https://{key}@example.com/v1/x", PROMPT, ANSWER),
    "a host beyond ASCII": lambda key: make_exchange(f"https://{key.lower()}.münchen.de/v1/x", PROMPT, ANSWER),
    "a fragment": lambda key: make_exchange(f"https://h/v1/x#a-{key}", PROMPT, ANSWER),
    "the name of a parameter": lambda key: make_exchange(f"https://h/v1/x?a%5B{key}%5D=1", PROMPT, ANSWER),
    "a method": lambda key: replace(make_exchange(request=PROMPT, answer=ANSWER), method=key),
    "the name of a member": lambda key: make_exchange(request={"model": "m", "user_" + key: 1}, answer=ANSWER),
    "a cookie": lambda key: make_exchange(request=PROMPT, answer=ANSWER, headers=[("Cookie", f"a={key[8:]}")]),
    "an old cookie": lambda key: make_exchange(request=PROMPT, answer=ANSWER, headers=[("Cookie2", f"a={key[8:]}")]),
    "an error": lambda key: _failed(f"cannot connect to host {key.lower()}.example.com:443"),
    "an error with a joined key": lambda key: _failed(f"no such host: 'api-{key}.example.com'"),
    "a function": lambda key: _called(Caller(f"a.py:1:call_{key}", "s", "t")),
    "a file": lambda key: _called(Caller(f"src/x-{key}.py:1:f", "s", "t")),
    "a test": lambda key: _called(Caller("a.py:1:f", "s", f"tests/a.py::test_x[a-{key}]")),
    "a session": lambda key: _called(Caller("a.py:1:f", f"run-{key}", "t")),
    "a state": lambda key: _called(Caller("a.py:1:f", "s", "t", state={"note": key, key: 1})),
}


@pytest.mark.parametrize("name", LABELS)
def test_no_label_of_a_call_stores_a_key(name: str, tmp_path: Path) -> None:
    """Where it came from and went to, what it is called, and why it failed."""
    key = make_key()

    record(tmp_path, [LABELS[name](key)])

    assert not is_stored(tmp_path, key)
    assert key.lower().encode() not in read_disk(tmp_path)


def test_a_key_that_is_joined_to_a_word_of_a_command_is_not_in_its_scope() -> None:
    key = make_key()

    scope = REDACTOR.redact_command(
        ["pytest", f"tests/a.py::test_x[a-{key}]", f"--base-url=https://api-{key}.h.com/"]
    )

    assert (False, scope) == (key in scope, REDACTOR.redact_label(scope))


@pytest.mark.parametrize("safe", ["", "/"])
def test_a_secret_in_a_percent_encoded_address_is_redacted(safe: str) -> None:
    """In a resource, in a list, and in the arguments of a tool call, with and without spaces between its members."""
    stored = []
    for number, name in enumerate(SHAPES):
        shape = make_shape(name, Random(number))
        encoded = f"memo://notes/?text={quote(shape.text, safe=safe)}"
        arguments = [json.dumps({"url": encoded}, separators=marks) for marks in ((",", ":"), (", ", ": "))]
        value = {"contents": [{"uri": encoded}], "links": [encoded], "calls": [{"arguments": arguments}]}
        cleaned = REDACTOR.redact_body(json.dumps(value).encode(), "application/json").value
        assert json.loads(cleaned)["contents"][0]["uri"].startswith("memo://notes/?text=")
        texts = [*decode_everything(cleaned), unquote_to_bytes(cleaned)]
        if any(shape.secret.encode() in text for text in texts):
            stored.append(name)

    assert [] == stored


def test_an_address_without_a_secret_keeps_its_bytes() -> None:
    """Also where a part of it was redacted as it stood, and where a percent sign encodes nothing."""
    key = make_key()
    value = {"uri": f"file:///a%20b/%zz?k={key}&q=caf%C3%A9", "rate": "50%"}

    cleaned = REDACTOR.redact_json(value).value

    assert {"uri": f"file:///a%20b/%zz?k={REDACTED}&q=caf%C3%A9", "rate": "50%"} == cleaned
