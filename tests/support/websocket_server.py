"""A WebSocket server on loopback that answers from a script, in a thread of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.server import ServerConnection, serve

Script = Callable[[ServerConnection], None]


class WebSocketServer:
    """The server, and what its clients sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@contextmanager
def websocket_server(script: Script, **options: Any) -> Iterator[WebSocketServer]:
    """Serve every connection with `script`; the connection is closed when it returns."""

    def handle(connection: ServerConnection) -> None:
        server.connections += 1
        script(connection)

    with serve(handle, "127.0.0.1", 0, **options) as listening:
        server = WebSocketServer(listening.socket.getsockname()[1])
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def realtime(connection: ServerConnection) -> None:
    """What OpenAI's realtime API sends, as it documents it: a session, and an answer to each `response.create`."""
    instructions = ""
    _send(connection, {"type": "session.created", "event_id": "event_1", "session": {"id": "sess_1"}})
    for data in connection:
        event = json.loads(data)
        if event["type"] == "session.update":
            instructions = event["session"]["instructions"]
            _send(connection, {"type": "session.updated", "event_id": "event_2", "session": event["session"]})
        elif event["type"] == "response.create":
            for word in ("Hello", " there"):
                _send(connection, {"type": "response.output_text.delta", "event_id": "event_3", "delta": word})
            _send(
                connection,
                {
                    "type": "response.done",
                    "event_id": "event_4",
                    "response": {"id": "resp_1", "status": "completed", "usage": {"total_tokens": len(instructions)}},
                },
            )


def models(connection: ServerConnection) -> None:
    """Every API of the providers that is used through a WebSocket, by its path."""
    assert connection.request is not None
    path = connection.request.path.partition("?")[0]
    if path.endswith("/realtime"):
        realtime(connection)
    elif path.endswith("/responses"):
        responses(connection)
    elif path.endswith("GenerateContent"):
        live(connection)


def responses(connection: ServerConnection) -> None:
    """The WebSocket mode of OpenAI's Responses API, as it documents it: the events of a stream for each request."""
    for number, data in enumerate(connection):
        event = json.loads(data)
        assert event["type"] == "response.create"
        response = {"id": f"resp_{number}", "object": "response", "model": event["model"], "output": []}
        _send(connection, {"type": "response.created", "sequence_number": 0, "response": response})
        for word in ("Hello", f" {number}"):
            _send(connection, {"type": "response.output_text.delta", "sequence_number": 1, "delta": word})
        done = {**response, "status": "completed"}
        _send(connection, {"type": "response.completed", "sequence_number": 3, "response": done})


def live(connection: ServerConnection) -> None:
    """Google's Live API, as it documents it: JSON in binary frames, on several lines."""
    for data in connection:
        message = json.loads(data)
        if "setup" in message:
            _send_binary(connection, {"setupComplete": {}})
        elif "realtime_input" in message or "realtimeInput" in message:
            _send_binary(connection, {"serverContent": {"inputTranscription": {"text": "hello"}}})
        else:
            for word in ("Hello", " there"):
                turn = {"role": "model", "parts": [{"text": word}]}
                _send_binary(connection, {"serverContent": {"modelTurn": turn}})
            _send_binary(connection, {"serverContent": {"turnComplete": True}})


def _send_binary(connection: ServerConnection, message: dict[str, Any]) -> None:
    connection.send((json.dumps(message, indent=2) + "\n").encode())


def _send(connection: ServerConnection, event: dict[str, Any]) -> None:
    connection.send(json.dumps(event, separators=(",", ":")))
