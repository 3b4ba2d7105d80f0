"""One call, told to a watcher in such a way that nothing the watcher does can reach the application.

In: what a client hook sees of a call. Out: the same, as calls of the watcher's methods, in order and once; for a call
that is replayed, its answer. Never: raises, and never tells a watcher again about a call in which it failed.

    headers, reply_headers            what goes upstream; what is added to the response
    sent(piece) … answered(status, headers) … came(piece) … ended(outcome, error)

A call with `plays` is answered from recordings. Here the opposite holds: what fails is refused, and counted with
`refused(why)`, because nothing may reach the network on account of a mistake of ours.

    play(body)                        an answer (`replayed_response.py`), or None: it goes on to its upstream

A watcher that is `strict` lets no call go on. It is asked once, when the request is whole, and never told anything:

    answer(method, url, headers, body)    an answer; headers as HTTP's bytes

A response that is dropped without being closed ends when it is collected, inside the garbage collector, where no lock
may be taken. So it is put aside, and told at the next chance: `sweep`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

ANSWERED, CUT, LEFT, FAILED = "answered", "cut", "left", "failed"
NAMES_MAX = 1000  # of headers that are remembered, because they come with every call
ERROR_LENGTH_MAX = 500  # of the sentence that says why; the rest helps nobody

Pairs = tuple[tuple[str, str], ...]


class Faults:
    """How often a watcher failed, and how it said so first."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, exc: BaseException) -> None:
        """A watcher raised."""
        self.count += 1
        self.first = self.first or error_text(exc)


faults = Faults()
dropped: deque[Any] = deque()
_names: dict[bytes, str] = {}


class Told:
    """One call in flight, from its client hook to its watcher."""

    __slots__ = ("_call", "_player", "headers", "plays", "reply_headers", "trace_id")

    def __init__(self, call: Any) -> None:
        self._call = call  # None: it has ended, or its watcher failed
        self.headers: Pairs = call.headers
        self.reply_headers: Pairs = call.reply_headers
        self.plays: bool = getattr(call, "plays", False)
        self._player: Any = call if self.plays else None
        self.trace_id: str = getattr(call, "id", "")  # of the trace that it becomes, unless it is answered here

    def play(self, body: bytes) -> Any:
        """The answer to the whole request; None: it is not for us to answer, and goes on."""
        try:
            answer = self._player.play(body)
        except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
            return self.refuse(exc)
        if answer is not None:
            self._call = None
        return answer

    def refuse(self, exc: BaseException) -> Any:
        """It cannot be answered, and must not go on: the answer that says so."""
        self._call = None
        return refuse(self._player, f"the call could not be replayed ({error_text(exc)})")

    @property
    def open(self) -> bool:
        """Has it not ended yet?"""
        return self._call is not None

    def sent(self, data: bytes) -> None:
        """A piece of the request's body."""
        try:
            if self._call is not None:
                self._call.sent(data)
        except Exception as exc:  # noqa: BLE001 (nothing of ours may reach the application)
            self._fail(exc)

    def answered(self, status: int, headers: Pairs) -> None:
        """The response begins."""
        try:
            if self._call is not None:
                self._call.answered(status, headers)
        except Exception as exc:  # noqa: BLE001
            self._fail(exc)

    def came(self, data: bytes) -> None:
        """A piece of the response's body."""
        try:
            if self._call is not None:
                self._call.came(data)
        except Exception as exc:  # noqa: BLE001
            self._fail(exc)

    def tap(self) -> Callable[[bytes], object]:
        """What takes the pieces of the response, without a safety around it: for those who have one themselves."""
        return self._call.came if self._call is not None else _ignore

    def give_up(self, exc: BaseException) -> Callable[[bytes], object]:
        """The tap failed; what stands in for it."""
        self._fail(exc)
        return _ignore

    def ended(self, outcome: str, error: str = "") -> None:
        """The call is over; only the first time counts."""
        call, self._call = self._call, None
        try:
            if call is not None:
                call.ended(outcome, error)
        except Exception as exc:  # noqa: BLE001
            faults.add(exc)

    def broke(self, exc: BaseException) -> None:
        """Reading the response raised: the upstream broke off, or the application went away (it was cancelled)."""
        self.ended(CUT if isinstance(exc, Exception) else LEFT, error_text(exc))

    def left(self, exc: BaseException) -> None:
        """The application went away, and that is why reading raised."""
        self.ended(LEFT, error_text(exc))

    def failed(self, exc: BaseException) -> None:
        """There is no response."""
        self.ended(FAILED, error_text(exc))

    def dropped(self) -> None:
        """The response was collected before its end: to be told soon."""
        call, self._call = self._call, None
        if call is not None:
            dropped.append(call)

    def _fail(self, exc: BaseException) -> None:
        self._call = None
        faults.add(exc)


class Asking(Told):
    """A call that a strict watcher answers. Whatever happens, it does not go on."""

    __slots__ = ("_method", "_raw", "_url")

    plays = True
    headers: Pairs = ()  # They would go upstream.
    reply_headers: Pairs = ()

    def __init__(self, watcher: Any, method: str, url: str, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self._call = None
        self._player = watcher
        self._method = method
        self._url = url
        self._raw = raw

    def play(self, body: bytes) -> Any:
        """The answer to the whole request."""
        try:
            answer = self._player.answer(self._method, self._url, self._raw, body)
        except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
            return self.refuse(exc)
        return refuse(self._player, "the call got no answer") if answer is None else answer


def _ignore(data: bytes) -> None:
    pass


def sweep() -> None:
    """Tell the ends of responses that were dropped."""
    while dropped:
        try:
            dropped.popleft().ended(LEFT, "the response was dropped before its end")
        except IndexError:
            return  # another thread was first
        except Exception as exc:  # noqa: BLE001
            faults.add(exc)


def refuse(player: Any, why: str) -> Any:
    """Count a call that was not replayed, and answer it."""
    from .replayed_response import refusal

    safely(None, player.refused, why)
    return refusal(why)


def safely(instead: Any, work: Callable[..., Any], *args: Any) -> Any:
    """What `work` returns, or `instead` where it raises: it is ours, and must not reach the application."""
    try:
        return work(*args)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return instead


def error_text(exc: BaseException) -> str:
    """An exception in one line."""
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 (an exception that cannot even say what it is)
        text = ""
    name = type(exc).__name__
    return (f"{name}: {text}" if text else name)[:ERROR_LENGTH_MAX]


def pairs(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Headers as HTTP's bytes, made text that can be made the same bytes again."""
    known = _names.get
    return tuple([(known(name) or _learn(name), str(value, "latin-1")) for name, value in raw])


def _learn(name: bytes) -> str:
    text = name.decode("latin-1")
    if len(_names) < NAMES_MAX:
        _names[name] = text
    return text


def length_of(headers: Pairs) -> str:
    """What `Content-Length` says; "" where it is not there."""
    for name, value in headers:
        if len(name) == 14 and name.lower() == "content-length":
            return value
    return ""


def is_ours(name: str) -> bool:
    """Is it a header of TraceForge, which must not go upstream?"""
    return name[:13].lower() == "x-traceforge-"
