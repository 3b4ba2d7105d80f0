"""Scan a text once for the secrets of all detectors.

In: UTF-8 bytes. Out: byte ranges, sorted, none overlapping. Never: changes the text, or takes more than linear time:
google-re2 is linear, and every exact expression after it is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from traceforge.redact import (
    assignment_detectors,
    companion_detectors,
    context_detectors,
    encoded_keys,
    key_detectors,
    markup_detectors,
    notation_detectors,
    personal_detectors,
    phrase_detectors,
    record_detectors,
    secret_columns,
    vendor_keys,
)
from traceforge.redact.secret_names import FIELD_NAMES

if TYPE_CHECKING:
    from re2 import _Regexp

    from traceforge.redact.detector import Detector

SCAN_MEMORY_BYTES = 64 << 20  # For the automaton of all anchors. It uses under 2 MB on real text.
ANCHOR_BYTES_MAX = 2048  # No anchor that a detector accepts is longer.
FIRST_WINDOW_BYTES = 4 * ANCHOR_BYTES_MAX  # How far a search behind a candidate reads before it reads further.
CONTEXT_TYPES = frozenset({"FIELD", "SECRET", "BEARER", "PARAMETER", "BASIC_AUTH"})
ANY_VENDOR = "API_KEY"  # The type of a key that no detector of its own knows.
# What random characters and joined numbers, such as times, may look like by chance.
CHANCE_TYPES = frozenset({"PHONE", "US_SSN", "CREDIT_CARD", "EMAIL"})
SECRET_BYTES_MIN = 6  # No detector finds anything in fewer bytes.


class SecretSpan(NamedTuple):
    """A secret in a text: from `start` to `end`, in bytes, and what it is."""

    start: int
    end: int
    type: str


class Scanner:
    """The detectors, as one expression. Made once, used by any number of threads.

    An expression is compiled when it is first needed: many processes make a scanner and never meet a text, and most
    texts hold no secret.
    """

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors
        self._anchors = [detector.whole_anchor for detector in detectors]
        self._anchor_patterns: dict[int, re.Pattern[bytes]] = {}  # compiled when they are first needed

    @cached_property
    def _search(self) -> Callable[..., Any]:
        search: Callable[..., Any] = compile_bytes(join_anchors(self._detectors)).search
        return search

    @cached_property
    def _find_candidates(self) -> Callable[[bytes], list[int] | None]:
        """All anchors side by side: which of them match at the start of a text."""
        anchors = re2.Set.MatchSet(_byte_options())
        for anchor in self._anchors:
            anchors.Add(anchor)
        anchors.Compile()
        find: Callable[[bytes], list[int] | None] = anchors.Match
        return find

    def _match_anchors(self, text: bytes, start: int) -> Iterator[tuple[Detector, int]]:
        """The detectors whose anchor matches at `start`, the most certain first, each with the end of its anchor."""
        for number in sorted(self._find_candidates(text[start : start + ANCHOR_BYTES_MAX]) or ()):
            pattern = self._anchor_patterns.get(number)
            if pattern is None:
                pattern = self._anchor_patterns[number] = re.compile(self._anchors[number])
            anchor = pattern.match(text, start)  # Only here is the start of the text what `^` means.
            if anchor is not None:
                yield self._detectors[number], anchor.end()

    def scan(self, text: bytes) -> list[SecretSpan]:
        """Find every secret in `text`, in order."""
        if len(text) < SECRET_BYTES_MIN:
            return []
        spans: list[SecretSpan] = []
        read_to: dict[int, int] = {}  # How far each detector of many secrets has read.
        match = self._search(text)
        start = match.start() if match is not None else -1
        while start >= 0:
            span = self._locate(text, start, spans, read_to)
            if span is not None:
                spans.append(span)
            start = self._find_anchor(text, start + 1 if span is None else max(span.end, start + 1))
        return merge_spans(spans) if len(spans) > 1 else spans

    def _find_anchor(self, text: bytes, start: int) -> int:
        """The position of the next candidate, or -1.

        While an anchor could go on, the automaton reads on, to the end of what it is given. So each search has a
        window: hostile text of many candidates would take quadratic time.
        """
        size = FIRST_WINDOW_BYTES
        while True:
            end = min(start + size, len(text))
            match = self._search(text, start, end)
            if end == len(text):
                return match.start() if match is not None else -1
            complete_to = end - ANCHOR_BYTES_MAX  # An anchor that begins later may end outside of the window.
            if match is not None and match.start() <= complete_to:
                return int(match.start())
            start = max(start, complete_to)
            size *= 2

    def _locate(self, text: bytes, start: int, spans: list[SecretSpan], read_to: dict[int, int]) -> SecretSpan | None:
        """The secret at an anchor; those that a detector of many finds further on are added to `spans`."""
        for detector, anchor_end in self._match_anchors(text, start):
            if detector.locate_all is not None:
                if start >= read_to.get(id(detector), 0):
                    ranges, read_to[id(detector)] = detector.locate_all(text, start, anchor_end)
                    spans += [SecretSpan(*_whole_characters(text, *place), detector.type) for place in ranges]
                continue
            place = detector.locate(text, start, anchor_end)
            if place is not None:
                first, end = _whole_characters(text, *place)
                return self._refine_type(text, SecretSpan(first, end, detector.type))
        return None

    def _refine_type(self, text: bytes, place: SecretSpan) -> SecretSpan:
        """What its context or its form revealed may also have its own type: `api_key = "sk-…"` is an OPENAI_KEY."""
        if place.type not in CONTEXT_TYPES and place.type != ANY_VENDOR:
            return place
        starts = [max(0, place.start - 1)]
        mark = self._search(text, place.start, place.end)  # Some keys are known by what stands in the middle of them.
        if mark is not None:
            starts.append(mark.start())
        for start in starts:
            for detector, _ in self._match_anchors(text, start):
                if detector.type in CONTEXT_TYPES or detector.type == place.type:
                    continue
                inner = detector.locate(text, start, place.end)
                if inner is not None and inner[0] == place.start:
                    return SecretSpan(place.start, max(place.end, inner[1]), detector.type)
        return place


def _whole_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Widen a range that begins or ends inside a UTF-8 character."""
    while start > 0 and text[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def merge_spans(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Sorted, and what overlaps made one, named after the longer."""
    merged: list[SecretSpan] = []
    for item in sorted(spans):
        last = merged[-1] if merged else None
        if last is None or item.start >= last.end:
            merged.append(item)
            continue
        longer = item if item.end - item.start > last.end - last.start else last
        merged[-1] = SecretSpan(last.start, max(last.end, item.end), longer.type)
    return merged


def join_anchors(detectors: Iterable[Detector]) -> bytes:
    """One expression for all anchors. Each edge is written once, and each anchor: with a copy for each detector, the
    automaton would follow all copies after every word.
    """
    anchors: dict[bytes, dict[bytes, None]] = {}
    for detector in detectors:
        anchors.setdefault(detector.edge, {})[b"(?:%b)" % detector.anchor] = None
    return b"|".join(b"%b(?:%b)" % (edge, b"|".join(group)) for edge, group in anchors.items())


def compile_bytes(expression: bytes) -> _Regexp:
    """Compile an expression over bytes, without captures: google-re2 then needs its automaton alone."""
    return re2.compile(expression, _byte_options())


def _byte_options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.max_mem = SCAN_MEMORY_BYTES
    return options


def built_in_detectors(fields: Iterable[str] = ()) -> tuple[Detector, ...]:
    """Every detector, the most certain first; `fields` are more names of secret JSON members."""
    member = context_detectors.member_detector([*FIELD_NAMES, *fields])
    return (
        *companion_detectors.ALL_DETECTORS,
        *secret_columns.DETECTORS,
        member,
        *key_detectors.TOKENS,
        *key_detectors.BLOCKS,
        *vendor_keys.DETECTORS,
        *encoded_keys.DETECTORS,
        *context_detectors.DETECTORS,
        *markup_detectors.DETECTORS,
        *assignment_detectors.DETECTORS,
        *notation_detectors.DETECTORS,
        *phrase_detectors.DETECTORS,
        *record_detectors.DETECTORS,
        *companion_detectors.DETECTORS,
        *personal_detectors.DETECTORS,
    )


@lru_cache(maxsize=16)
def get_scanner(fields: tuple[str, ...]) -> Scanner:
    """The scanner for a set of field names; compiling takes milliseconds, so it is kept."""
    return Scanner(built_in_detectors(fields))
