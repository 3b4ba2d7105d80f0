"""`context/storage/keyring.py` and `sealing.py`: keys outside of the database, and what only they open."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.sealing import SealedColumns, Sealer
from traceforge.errors import StoreUnavailable

PROJECT = "prj_one"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the keyring is."""
    return str(tmp_path / "store.keys")


@pytest.fixture
def ring(path: str) -> Keyring:
    """A keyring with one key."""
    keyring = Keyring(path)
    keyring.add_key(PROJECT, 1)
    return keyring


def test_opening_a_missing_keyring_writes_no_file(path: str) -> None:
    """No key, no file."""
    assert [] == Keyring(path).generations(PROJECT)
    assert not os.path.exists(path)


def test_a_keyring_that_others_can_read_is_refused(ring: Keyring) -> None:
    """Its mode is 0600, and one that others may read is refused."""
    assert 0o600 == stat.S_IMODE(os.stat(ring.path).st_mode)

    os.chmod(ring.path, 0o640)

    with pytest.raises(StoreUnavailable, match="other users can read it"):
        Keyring(ring.path)


def test_a_key_that_another_process_made_is_found(ring: Keyring) -> None:
    """A process that does not know a generation reads the file again."""
    Keyring(ring.path).add_key(PROJECT, 2)
    sealed = Sealer(Keyring(ring.path), PROJECT).seal("events", "evt_a", 2, b"text")

    assert b"text" == Sealer(ring, PROJECT).open("events", "evt_a", sealed)
    assert [1, 2] == ring.generations(PROJECT)


def test_a_key_is_never_replaced(ring: Keyring) -> None:
    """Adding it again changes nothing."""
    before = Path(ring.path).read_bytes()

    ring.add_key(PROJECT, 1)

    assert before == Path(ring.path).read_bytes()


def test_a_destroyed_key_is_gone(ring: Keyring) -> None:
    """From the file, from this process, and from one that opens it later; the other keys are as they were."""
    ring.add_key(PROJECT, 2)
    old = Sealer(ring, PROJECT).seal("events", "evt_a", 1, b"old")
    new = Sealer(ring, PROJECT).seal("events", "evt_a", 2, b"new")
    key = json.loads(Path(ring.path).read_text())["keys"][PROJECT]["1"]

    ring.destroy_keys(PROJECT, before=2)

    assert key not in Path(ring.path).read_text()
    assert not ring.has_key(PROJECT, 1)
    for keyring in (ring, Keyring(ring.path)):
        with pytest.raises(StoreUnavailable, match="no key for project prj_one, generation 1"):
            Sealer(keyring, PROJECT).open("events", "evt_a", old)
        assert b"new" == Sealer(keyring, PROJECT).open("events", "evt_a", new)


def test_the_old_file_is_overwritten_before_it_is_unlinked(ring: Keyring) -> None:
    """A process that still has it open reads zeros."""
    ring.add_key(PROJECT, 2)
    with open(ring.path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        ring.destroy_keys(PROJECT, before=2)

        assert bytes(size) == file.read()
    assert ["store.keys", "store.keys.lock"] == sorted(os.listdir(os.path.dirname(ring.path)))


@pytest.mark.parametrize("replaced", [False, True])
def test_files_left_by_a_crash_are_overwritten_on_the_next_open(ring: Keyring, replaced: bool) -> None:
    """Before the new file was in place only the second name goes; after it, the old bytes go first."""
    os.link(ring.path, f"{ring.path}.old")
    if replaced:
        data = Path(ring.path).read_bytes()
        Path(f"{ring.path}.new").write_bytes(data)
        os.chmod(f"{ring.path}.new", 0o600)
        os.replace(f"{ring.path}.new", ring.path)
    with open(f"{ring.path}.old", "rb") as old:
        keyring = Keyring(ring.path)

        assert keyring.has_key(PROJECT, 1)
        assert replaced == (not old.read().strip(b"\0"))
    assert not os.path.exists(f"{ring.path}.old")


def test_many_processes_make_keys_at_once(path: str) -> None:
    """None is lost: a change is made to the file as it is at that moment."""
    rings = [Keyring(path) for _ in range(8)]

    def add(number: int) -> None:
        for generation in range(5):
            rings[number].add_key(f"prj_{number}", generation)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    keyring = Keyring(path)
    assert [[0, 1, 2, 3, 4]] * 8 == [keyring.generations(f"prj_{number}") for number in range(8)]


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"format":"x","keys":{}}', b'{"format":"traceforge.keyring/1","keys":{"p":{"1":"YQ=="}}}'],
)
def test_a_file_that_is_no_keyring_is_refused(path: str, data: bytes) -> None:
    """It is not taken for an empty one, and not replaced."""
    Path(path).write_bytes(data)
    os.chmod(path, 0o600)

    with pytest.raises(StoreUnavailable, match="not a keyring"):
        Keyring(path)

    assert data == Path(path).read_bytes()


def test_sealed_bytes_do_not_contain_the_content(ring: Keyring) -> None:
    """And the same content is never sealed to the same bytes."""
    sealer = Sealer(ring, PROJECT)
    first, two = (sealer.seal("events", "evt_a", 1, b"the secret") for _ in range(2))

    assert b"secret" not in first.sealed + first.wrapped_key
    assert first.sealed != two.sealed
    assert first.wrapped_key != two.wrapped_key


@pytest.mark.parametrize("change", ["project", "table", "row", "column", "content", "key", "cut"])
def test_sealed_bytes_open_only_in_their_own_row(ring: Keyring, change: str) -> None:
    """In its project, table, row and column, and unchanged."""
    ring.add_key("prj_two", 1)
    sealed_event = Sealer(ring, PROJECT).seal("events", "evt_a", 1, b"text")
    project = "prj_two" if change == "project" else PROJECT
    table = "artifacts" if change == "table" else "events"
    row = "evt_b" if change == "row" else "evt_a"
    column = b"sealed_metadata" if change == "column" else b"sealed"
    sealed = SealedColumns(
        sealed_event.sealed[:-1] + b"x"
        if change == "content"
        else sealed_event.sealed[: 5 if change == "cut" else None],
        sealed_event.wrapped_key[:-1] + bytes([sealed_event.wrapped_key[-1] ^ 1])
        if change == "key"
        else sealed_event.wrapped_key,
        1,
    )

    with pytest.raises(StoreUnavailable, match="cannot be decrypted"):
        Sealer(ring, project).load_row_key(table, row, sealed.wrapped_key, 1).open(sealed.sealed, column)


def test_a_data_key_is_wrapped_again_under_another_generation(ring: Keyring) -> None:
    """What it sealed stays as it is, and the old key is not needed any more."""
    sealer = Sealer(ring, PROJECT)
    sealed = sealer.seal("events", "evt_a", 1, b"text")
    ring.add_key(PROJECT, 2)

    wrapped = sealer.rewrap("events", "evt_a", sealed.wrapped_key, 1, 2)
    ring.destroy_keys(PROJECT, before=2)

    assert b"text" == sealer.open("events", "evt_a", SealedColumns(sealed.sealed, wrapped, 2))
