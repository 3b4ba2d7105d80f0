"""The type of a detector, and helpers to write one.

A detector has two parts. Its `anchor` is a short google-re2 expression, after an `edge` that many detectors share.
All anchors are joined into one expression, so one scan finds every place where a secret may be. Its `locate` then
examines that place with an exact expression and arithmetic, and returns the range of the secret, or None. So ordinary
text costs one scan.

Texts are UTF-8 bytes read as Latin-1: a detector sees bytes, and every byte of a character beyond ASCII is a byte of
128 or more.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters
from typing import NamedTuple

from traceforge.redact.lazy_pattern import LazyPattern

ByteRange = tuple[int, int]
Locate = Callable[[bytes, int, int], ByteRange | None]  # the text, and where the anchor matched in it
ManyRanges = tuple[list[ByteRange], int]  # the secrets that one name announces, and where the text read for them ends
LocateAll = Callable[[bytes, int, int], ManyRanges]

# What may precede a token: the start, anything but a letter or digit, or what ends with one: an escape of JSON, of
# programs, of URLs (also of a URL in a URL) or quoted-printable, the colour of a terminal, or a short option.
_ESCAPE = (
    rb"\\(?:[nrtbf]|[0-3][0-7]{2})|(?:\\(?:u[0-9a-fA-F]{2}|x)|%(?:25){0,3})[0-9a-fA-F]{2}|=(?:3D|2[0-9A-F]|0[AD])"
    rb"|\[[0-9;]{1,8}m|[ \t\n]-[A-Za-z]"
)
_ESCAPE_BYTES_MAX = 11
EDGE = rb"(?:^|[^A-Za-z0-9]|" + _ESCAPE + rb")"
# The same for tokens that start once in a run of `-` and `.`: those that take long to judge, or hostile text would
# cost much, and those whose first characters stand inside of words.
# A run may begin with a few of those: the `-` of a list, of a diff and of `${KEY:-…}`, the `_` of Markdown.
RUN_EDGE = rb"(?:^|[^A-Za-z0-9_.-]|" + _ESCAPE + rb")[-_.]{0,3}"
_BASE64_RUN_BYTES = 24
_BASE64, _BASE64_URL = (f"{ascii_letters}0123456789{marks}".encode() for marks in ("+/", "-_"))
_ESCAPE_AT = LazyPattern(_ESCAPE)
_EDGE = LazyPattern(rb"(?:" + _ESCAPE + rb"|[^A-Za-z0-9]|)[-_.]{0,3}")


def _locate_nothing(_text: bytes, _start: int, _end: int) -> ByteRange | None:
    return None


class Detector(NamedTuple):
    """One kind of secret: its type, where it may be, and where it is.

    With `locate_all`, the anchor announces secrets further on, and may be in the text before them. It is not asked
    again before the end of what it has read.
    """

    type: str
    anchor: bytes
    locate: Locate = _locate_nothing
    edge: bytes = b""  # what precedes the anchor, and is a part of the match
    locate_all: LocateAll | None = None

    @property
    def whole_anchor(self) -> bytes:
        """The anchor after its edge."""
        return b"%b(?:%b)" % (self.edge, self.anchor) if self.edge else self.anchor


def token_detector(
    kind: str,
    prefix: bytes,
    body: bytes,
    is_plausible: Callable[[bytes], bool] | None = None,
    lookahead: bytes = b"",
    edge: bytes = EDGE,
) -> Detector:
    """A token that its first characters give away: `prefix` finds it, `prefix` + `body` is all of it.

    `lookahead` is the least that must follow the prefix before it is worth a look. Every expression stops at a
    bounded length or at the first byte that is not its own, so that hostile text costs linear time. `edge` is
    RUN_EDGE for a token that starts once in a run.
    """
    exact = LazyPattern(prefix + body)

    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        first = after_edge(text, start)
        match = exact.match(text, first)
        if match is None or (is_plausible is not None and not is_plausible(match[0])):
            return None
        return None if is_inside_base64(text, first) else match.span()

    return Detector(kind, prefix + lookahead, locate, edge)


def mark_detector(
    kind: str,
    mark: bytes,
    head: bytes,
    head_max: int,
    token: bytes,
    is_plausible: Callable[[bytes], bool] | None = None,
) -> Detector:
    """A token that a rare mark inside gives away, with a head of up to `head_max` bytes of the alphabet `head`.

    An anchor that began with the head would begin in every word, and make the scan over all detectors slow.
    """
    exact = LazyPattern(token)

    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        before = text[max(0, start - head_max - _ESCAPE_BYTES_MAX) : start]
        first = start - (len(before) - len(before.rstrip(head)))
        match = exact.match(text, first)
        if match is None and first and (escape := _ESCAPE_AT.match(text, first - 1)) and escape.end() <= start:
            match = exact.match(text, escape.end())  # `%20` and a key: the digits are of the escape.
        if match is None or match.end() <= start or (is_plausible is not None and not is_plausible(match[0])):
            return None
        return match.span()

    return Detector(kind, mark, locate)


def is_inside_base64(text: bytes, start: int) -> bool:
    """Whether what precedes is base64, in which a prefix stands by chance: an image, a signature, an id."""
    before = text[max(0, start - _BASE64_RUN_BYTES) : start]
    if len(before) < _BASE64_RUN_BYTES or before[-1] not in b"+/-_":
        return False
    if before[-1] == ord("+"):
        return not before.strip(_BASE64)
    # Words may be joined by `-` and `/` as well; they are not of both cases with digits between.
    has_digits = len(before.translate(None, b"0123456789")) <= len(before) - 2
    alphabet = _BASE64 if before[-1] == ord("/") else _BASE64_URL
    return has_digits and not before.strip(alphabet) and before not in (before.lower(), before.upper())


def after_edge(text: bytes, start: int) -> int:
    """The position of the token, after the edge that the anchor includes."""
    if start == 0 and text[:1].isalnum():
        return 0
    edge = _EDGE.match(text, start)
    return edge.end() if edge else start
