"""What a session was told before.

In: finished turns. Out: the last messages of a session, to one request at a time, in the order in which they came.
Never: writes anything down, changes what was said, or keeps more than it may: a restart forgets everything.

Bounds: `MESSAGES_MAX` of a session, a number of sessions, and the memory that all of them take together. Beyond a
bound the session goes that was used longest ago, whole. One that is in use stays.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from traceforge.chat.chat_errors import Code, Refusal
from traceforge.chat.prompt_layers import Message

MESSAGES_MAX = 20  # Ten questions and their answers.
SESSIONS_MAX = 1000
BYTES_MAX = 256 << 20  # A session of the largest messages takes a fifth of it.


class Session:
    """One conversation; append-only."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.messages: deque[Message] = deque(maxlen=MESSAGES_MAX)
        self.users = 0  # Requests that are served or wait.
        self.turn = asyncio.Lock()  # Wakes those who wait in the order in which they came.

    @property
    def size(self) -> int:
        """The bytes it takes, but for a few."""
        return sum(sys.getsizeof(one.content) for one in self.messages) + sys.getsizeof(self.session_id)


class Memory:
    """The sessions of one server."""

    def __init__(self, sessions_max: int = SESSIONS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # Used longest ago first.
        self._sessions_max = sessions_max
        self._bytes_max = bytes_max
        self._bytes = 0

    @property
    def sessions(self) -> list[str]:
        """Which sessions are known, the one used longest ago first."""
        return list(self._sessions)

    @property
    def size(self) -> int:
        """The bytes that all sessions take."""
        return self._bytes

    def history(self, session_id: str) -> list[Message]:
        """What a session remembers; nothing where it is not known."""
        known = self._sessions.get(session_id)
        return [] if known is None else list(known.messages)

    @asynccontextmanager
    async def turn(self, session_id: str) -> AsyncIterator[Session]:
        """Have a session to oneself, after all who asked before.

        Raises:
            Refusal: there are as many sessions as there may be, and all of them are in use.
        """
        session = self._enter(session_id)
        try:
            async with session.turn:
                yield session
        finally:
            self._leave(session)

    def remember(self, session: Session, message: str, reply: str) -> None:
        """A turn is over: both sides of it are appended, and the oldest fall off."""
        self._bytes -= session.size
        session.messages += (Message("user", message), Message("assistant", reply))
        self._bytes += session.size
        self._forget_some()

    def _enter(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            if len(self._sessions) >= self._sessions_max and not self._forget_one():
                told = f"all of the {self._sessions_max} sessions are in use"
                raise Refusal(Code.TOO_BUSY, told, hint="Try again when one of them was answered.")
            session = self._sessions[session_id] = Session(session_id)
            self._bytes += session.size
        self._sessions.move_to_end(session_id)
        session.users += 1
        return session

    def _leave(self, session: Session) -> None:
        session.users -= 1
        if not session.users and not session.messages:  # Its first turn failed: there is nothing to remember.
            self._drop(session)
        else:
            self._forget_some()

    def _forget_some(self) -> None:
        while self._bytes > self._bytes_max and self._forget_one():
            pass

    def _forget_one(self) -> bool:
        idle = next((one for one in self._sessions.values() if not one.users), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _drop(self, session: Session) -> None:
        del self._sessions[session.session_id]
        self._bytes -= session.size
