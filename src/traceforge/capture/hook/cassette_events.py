"""Which recorded request answered which sent request, in the recorders that a suite uses itself: vcrpy and cassetter.

In: the modules of the recorders, as they are imported. Out: reports to the watcher: a cassette was loaded, a recorded
interaction was played, a call was not answered. Never: imports a recorder, changes what it plays, or runs a filter of
the project once more: the pair that the recorder itself compares is what is reported.

    vcr.cassette.requests_match                   compares the filtered request with a recorded one
    vcr.cassette.Cassette.play_response           plays the interaction that was compared last
    vcr.cassette.Cassette.can_play_response_for   None: a filter takes the request out; false: nothing answers it
    vcr.cassette.Cassette._load                   reads the recorded interactions
    cassetter.cassette.scrub_interaction          takes secrets out of the request
    cassetter.cassette.Cassette.match             plays an interaction, or raises where nothing answers
    cassetter.cassette.Cassette.should_bypass     true: a filter takes the request out
    cassetter.cassette.Cassette.load              reads the recorded interactions
    cassetter.cassette.Cassette._before_record_request    the filter of the suite: takes a request out, or not
"""

from __future__ import annotations

import json
import threading
import zlib
from typing import Any

from .patches import Hook, Patches

REFUSED, LIVE = "refused", "live"  # What became of a call that no recorded interaction answers.
NOT_HTTP = "not HTTP"
UNREADABLE = "unreadable"  # A body has a type that is not known.
IGNORED = "ignored"  # A filter of the suite takes the call out.
NEVER_PLAYED = "never played"  # The record mode plays nothing.
BLANK_BODY = "blank body"  # A filter of the suite takes the body out, on both sides.
OTHER_RECORDERS = ("betamax",)  # Recorders whose cassettes are not observed.


def make_hooks(watcher: Any) -> dict[str, Hook]:
    """Hooks for the modules of recorders."""
    events = _CassetteEvents(watcher)
    return {
        "vcr.cassette": events.hook_vcrpy,
        "cassetter.cassette": events.hook_cassetter,
        **dict.fromkeys(OTHER_RECORDERS, events.hook_other),
    }


class _CassetteEvents:
    """Patches that report to a watcher. No error of theirs reaches a test."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher
        self._compared = threading.local()  # what the recorder of this thread compared last

    def hook_other(self, module: Any, patches: Patches) -> None:
        self._watcher.note_unseen(f"calls recorded by {module.__name__}")

    def hook_vcrpy(self, module: Any, patches: Patches) -> None:
        patches.wrap(module, "requests_match", self._wrap_vcrpy_match)
        patches.wrap(module.Cassette, "can_play_response_for", self._wrap_vcrpy_can_play)
        patches.wrap(module.Cassette, "_load", self._wrap_vcrpy_load)
        patches.wrap(module.Cassette, "play_response", self._wrap_vcrpy_play)

    def _wrap_vcrpy_match(self, match: Any) -> Any:
        def watched(sent: Any, recorded: Any, *args: Any, **kwargs: Any) -> Any:
            result = match(sent, recorded, *args, **kwargs)
            if result:
                self._compared.pair = recorded, sent
            return result

        return watched

    def _wrap_vcrpy_play(self, play: Any) -> Any:
        def watched(cassette: Any, request: Any) -> Any:
            self._compared.pair = None
            response = play(cassette, request)
            self._guard(self._report_vcrpy, cassette)
            return response

        return watched

    def _wrap_vcrpy_can_play(self, can_play: Any) -> Any:
        def watched(cassette: Any, request: Any) -> Any:
            result = can_play(cassette, request)
            if not result:
                self._guard(self._report_unanswered, cassette, request, result is None)
            return result

        return watched

    def _wrap_vcrpy_load(self, load: Any) -> Any:
        def watched(cassette: Any) -> Any:
            result = load(cassette)
            self._guard(self._report_loaded, cassette._path, [recorded for recorded, _ in cassette.data])
            return result

        return watched

    def hook_cassetter(self, module: Any, patches: Patches) -> None:
        def wrap_match(match: Any) -> Any:
            return self._wrap_cassetter_match(match, module)

        def wrap_bypass(should_bypass: Any) -> Any:
            return self._wrap_cassetter_bypass(should_bypass, module)

        patches.wrap(module, "scrub_interaction", self._wrap_cassetter_scrub)
        patches.wrap(module.Cassette, "load", self._wrap_cassetter_load)
        patches.wrap(module.Cassette, "match", wrap_match)
        patches.wrap(module.Cassette, "should_bypass", wrap_bypass)
        for name in ("play_grpc", "play_ws"):
            if hasattr(module.Cassette, name):
                patches.wrap(module.Cassette, name, self._wrap_cassetter_not_http)

    def _wrap_cassetter_scrub(self, scrub: Any) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._compared.pair = scrub(*args, **kwargs)
            return self._compared.pair

        return watched

    def _wrap_cassetter_match(self, match: Any, module: Any) -> Any:
        def watched(cassette: Any, method: str, uri: str, *args: Any, **kwargs: Any) -> Any:
            try:
                index, response = match(cassette, method, uri, *args, **kwargs)
            except module.NoMatchError:
                outcome = LIVE if cassette.can_record else REFUSED
                self._guard(self._watcher.report_unanswered, str(cassette.path), method, uri, outcome)
                raise
            self._guard(self._report_cassetter, cassette, index)
            return index, response

        return watched

    def _wrap_cassetter_load(self, load: Any) -> Any:
        def watched(cassette: Any) -> Any:
            result = load(cassette)
            recorded = [interaction.request for interaction in cassette.interactions]
            self._guard(self._report_loaded, cassette.path, recorded)
            return result

        return watched

    def _wrap_cassetter_bypass(self, should_bypass: Any, module: Any) -> Any:
        def watched(cassette: Any, uri: str) -> Any:
            self._guard(self._watch_filter, cassette, getattr(module, "SkipRecording", NotImplementedError))
            result = should_bypass(cassette, uri)
            if result:
                self._guard(self._watcher.report_unanswered, str(cassette.path), "", uri, IGNORED)
            return result

        return watched

    def _wrap_cassetter_not_http(self, play: Any) -> Any:
        def watched(cassette: Any, *args: Any, **kwargs: Any) -> Any:
            self._guard(self._watcher.report_unanswered, str(cassette.path), "", "", NOT_HTTP)
            return play(cassette, *args, **kwargs)

        return watched

    def _watch_filter(self, cassette: Any, skip: type[BaseException]) -> None:
        """Report each request that the filter of a cassette takes out: it raises `skip`, or returns nothing."""
        original = getattr(cassette, "_before_record_request", None)
        if original is None or getattr(original, "_traceforge_filter", None) is not None:
            return

        def watched(request: Any) -> Any:
            ignored = str(cassette.path), request.method, request.uri, IGNORED  # The filter may change the request.
            try:
                result = original(request)
            except skip:
                self._guard(self._watcher.report_unanswered, *ignored)
                raise
            if result is None:
                self._guard(self._watcher.report_unanswered, *ignored)
            return result

        watched._traceforge_filter = original  # type: ignore[attr-defined]
        cassette._before_record_request = watched

    def _guard(self, report: Any, *args: Any) -> None:
        try:
            report(*args)
        except Exception as exc:  # noqa: BLE001
            self._watcher.add_fault(exc)

    def _report_loaded(self, path: Any, recorded: Any) -> None:
        recorded = [(request.method, request.uri) for request in recorded]
        self._watcher.report_loaded(str(path), recorded, digest_file(str(path)))

    def _report_vcrpy(self, cassette: Any) -> None:
        recorded, sent = self._compared.pair
        index = next(number for number, (request, _) in enumerate(cassette.data) if request is recorded)
        self._report_played(str(cassette._path), index, recorded, sent)

    def _report_cassetter(self, cassette: Any, index: int) -> None:
        self._report_played(
            str(cassette.path), index, cassette.interactions[index].request, self._compared.pair.request
        )

    def _report_played(self, path: str, index: int, recorded: Any, sent: Any) -> None:
        try:
            requests = [_describe(recorded), _describe(sent)]
        except TypeError:
            self._watcher.report_unanswered(path, sent.method, sent.uri, UNREADABLE)
        else:
            self._watcher.report_played(path, index, *requests)

    def _report_unanswered(self, cassette: Any, request: Any, is_ignored: bool) -> None:
        """A client asks more than once for one request; it is the same object each time."""
        if getattr(self._compared, "unanswered", None) is not request:
            self._compared.unanswered = request
            if is_ignored:
                outcome = IGNORED
            elif getattr(cassette, "record_mode", "") == "all":
                outcome = NEVER_PLAYED
            else:
                outcome = REFUSED if cassette.write_protected else LIVE
            self._watcher.report_unanswered(str(cassette._path), request.method, request.uri, outcome)


def digest_file(path: str) -> str:
    """A digest that differs where a cassette was changed; "" if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return ""
    return f"{len(data)}-{zlib.crc32(data):08x}"  # hashlib takes longer to load, in every process


def _describe(request: Any) -> tuple[dict[str, str], bytes]:
    """A request of a recorder: its head, with the headers that say how the body is to be read, and its body."""
    headers = {str(name).lower(): values for name, values in request.headers.items()}
    head = {"method": str(request.method), "url": str(request.uri)}
    for field, name in (("type", "content-type"), ("encoding", "content-encoding")):
        value = headers.get(name, "")
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        head[field] = value.decode("latin-1") if isinstance(value, bytes) else str(value or "")
    return head, _read_body(request.body)


def _read_body(body: Any) -> bytes:
    """The bytes of a body, in any form that the recorders hold it.

    Raises:
        TypeError: it has another form.
    """
    if hasattr(body, "body_type"):  # cassetter's
        body = json.dumps(body.content) if body.body_type == "json" else body.content
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, (dict, list)):
        return json.dumps(body).encode()
    if hasattr(body, "read"):  # vcrpy makes a new one for each reader
        return _read_body(body.read())
    return b"".join(_read_body(part) for part in body)
