"""The conversations of the server, in memory only: a restart forgets them.

In: finished turns. Out: the last messages of a session, to one request at a time, in order of arrival. Never: writes
anything to disk, changes a message, or exceeds a limit.

The limits are `MESSAGES_MAX` for a session, a number of sessions, and the memory of all sessions together. Beyond a
limit, the session that was used longest ago is dropped as a whole, unless it is in use.
"""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from traceforge.chat.chat_errors import ChatError, ChatErrorCode
from traceforge.chat.prompt_layers import ConversationMessage

MESSAGES_MAX = 20  # Ten questions and their answers.
SESSIONS_MAX = 1000
BYTES_MAX = 256 << 20  # A session of the largest messages takes a fifth of it.


class ChatSession:
    """The turns of one conversation; they are only appended to."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.messages: deque[ConversationMessage] = deque(maxlen=MESSAGES_MAX)
        self.requests = 0  # That are served or wait for their turn.
        self.turn_lock = asyncio.Lock()  # Fair: requests get it in order of arrival.

    @property
    def size(self) -> int:
        """The bytes that it takes, approximately."""
        return sum(sys.getsizeof(message.content) for message in self.messages) + sys.getsizeof(self.session_id)


class ConversationMemory:
    """The sessions of one server."""

    def __init__(self, sessions_max: int = SESSIONS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._sessions: OrderedDict[str, ChatSession] = OrderedDict()  # The one used longest ago first.
        self._sessions_max = sessions_max
        self._bytes_max = bytes_max
        self._bytes = 0

    @property
    def sessions(self) -> list[str]:
        """The ids of all sessions, the one used longest ago first."""
        return list(self._sessions)

    @property
    def size(self) -> int:
        """The bytes that all sessions take."""
        return self._bytes

    def history(self, session_id: str) -> list[ConversationMessage]:
        """The messages of a session; none if it is unknown."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.messages)

    @asynccontextmanager
    async def turn(self, session_id: str) -> AsyncIterator[ChatSession]:
        """Exclusive use of a session, after all requests that came before.

        Raises:
            ChatError: the number of sessions is at its limit, and all of them are in use.
        """
        session = self._enter(session_id)
        try:
            async with session.turn_lock:
                yield session
        finally:
            self._leave(session)

    def append(self, session: ChatSession, message: str, reply: str) -> None:
        """Append both messages of a finished turn; the oldest ones fall off."""
        self._bytes -= session.size
        session.messages += (ConversationMessage("user", message), ConversationMessage("assistant", reply))
        self._bytes += session.size
        self._shrink()

    def _enter(self, session_id: str) -> ChatSession:
        session = self._sessions.get(session_id)
        if session is None:
            if len(self._sessions) >= self._sessions_max and not self._drop_idle():
                message = f"all {self._sessions_max} sessions are in use"
                raise ChatError(ChatErrorCode.TOO_BUSY, message, hint="Try again after one of them was answered.")
            session = self._sessions[session_id] = ChatSession(session_id)
            self._bytes += session.size
        self._sessions.move_to_end(session_id)
        session.requests += 1
        return session

    def _leave(self, session: ChatSession) -> None:
        session.requests -= 1
        if not session.requests and not session.messages:  # Its first turn failed.
            self._drop(session)
        else:
            self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._bytes_max and self._drop_idle():
            pass

    def _drop_idle(self) -> bool:
        """Drop the idle session that was used longest ago; return whether there was one."""
        idle = next((session for session in self._sessions.values() if not session.requests), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _drop(self, session: ChatSession) -> None:
        del self._sessions[session.session_id]
        self._bytes -= session.size
