"""The line to the parent: nothing is held up, nothing is lost without being counted."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from traceforge.capture.hook import frame_sender as module
from traceforge.capture.hook.frame_sender import FrameSender
from traceforge.capture.hook.frames import read_frame, write_frame


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """Somebody to talk to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.bind(str(tmp_path / "s"))
        one.listen()
        one.settimeout(10)
        yield one


@pytest.fixture
def sender(listener: socket.socket) -> Iterator[FrameSender]:
    """One that talks to it."""
    one = FrameSender(f"unix:{listener.getsockname()}", "token")
    yield one
    one.close()


def heard(connection: socket.socket) -> list[str]:
    """What kinds of frames came until the end."""
    with connection, connection.makefile("rb") as stream:
        frames = iter(lambda: read_frame(stream.read), None)
        return [frame[0]["kind"] for frame in frames]


def test_frames_come_in_order_after_hello(listener: socket.socket, sender: FrameSender) -> None:
    """One connection a process, opened when there is something to say."""
    for kind in ("a", "b", "c"):
        sender.send(write_frame({"kind": kind}))
    sender.close()
    connection, _ = listener.accept()

    assert ["hello", "a", "b", "c"] == heard(connection)


def test_no_thread_is_there_while_the_parent_keeps_up(listener: socket.socket, sender: FrameSender) -> None:
    """A process that forks is not one with threads on our account."""
    before = threading.active_count()
    for _ in range(10):
        sender.send(write_frame({"kind": "a"}))

    assert before == threading.active_count()


def test_a_parent_that_does_not_read_holds_nobody_up(listener: socket.socket, sender: FrameSender) -> None:
    """What the socket does not take waits in memory, and comes in order once the parent reads again."""
    for number in range(200):
        sender.send(write_frame({"kind": str(number)}, [b"x" * 50_000]))
    connection, _ = listener.accept()
    result: list[list[str]] = []
    reader = threading.Thread(target=lambda: result.append(heard(connection)))
    reader.start()
    sender.flush(10)
    sender.close()
    reader.join(10)

    assert ["hello", *map(str, range(200))] == result[0]
    assert 0 == sender.lost


def test_what_waits_is_bounded_and_the_rest_is_counted(
    listener: socket.socket, sender: FrameSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with a parent that has stopped reading."""
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 1_000_000)
    for _ in range(100):
        sender.send(write_frame({"kind": "x"}, [b"x" * 50_000]))

    assert sender._waiting_bytes <= 1_000_000
    assert 60 < sender.lost < 100


def test_a_parent_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    """Nothing is raised, and everything is counted."""
    sender = FrameSender(f"unix:{tmp_path}/nobody", "token")
    for _ in range(3):
        sender.send(b"x")
    sender.flush(1)

    assert 3 == sender.lost


def test_a_parent_that_goes_away_is_noticed(listener: socket.socket, sender: FrameSender) -> None:
    """The application never sees a broken pipe."""
    sender.send(write_frame({"kind": "first"}))
    connection, _ = listener.accept()
    connection.close()
    for _ in range(3):
        sender.send(write_frame({"kind": "a"}))

    assert sender.lost > 0


def test_a_number_that_the_application_has_taken_over_is_not_written_to(
    listener: socket.socket, sender: FrameSender, tmp_path: Path
) -> None:
    """A daemon closes every file it has; ours must then not speak into another."""
    sender.send(write_frame({"kind": "first"}))
    assert sender._socket is not None
    number = sender._socket.fileno()
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    os.dup2(file, number)
    sender.send(write_frame({"kind": "a"}))
    os.close(number)
    os.close(file)
    listener.accept()[0].close()
    connection, _ = listener.accept()
    sender.close()

    assert b"" == (tmp_path / "file").read_bytes()
    assert ["hello", "a"] == heard(connection)


def test_loopback_serves_where_there_are_no_unix_sockets() -> None:
    """The same frames over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = FrameSender(f"tcp:127.0.0.1:{listener.getsockname()[1]}", "token")
        sender.send(write_frame({"kind": "a"}))
        sender.close()
        connection, _ = listener.accept()

        assert ["hello", "a"] == heard(connection)
