"""Files of pending changes that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.proposals import make_call, propose
from traceforge.errors import InvalidFile
from traceforge.snapshots.record.pending_changes import (
    PENDING_FOLDER,
    PENDING_FORMAT_RULE,
    load_pending,
    save_pending,
    scan_pending,
)


@pytest.mark.parametrize("content", ["{broken", "{}"])
def test_a_damaged_pending_change_is_named_and_is_to_be_deleted(tmp_path: Path, content: str) -> None:
    """It is in no commit that could restore it, and `record` reads it too."""
    folder = tmp_path / PENDING_FOLDER
    folder.mkdir(parents=True)
    (folder / "ask-1.json").write_text(content)

    with pytest.raises(InvalidFile) as caught:
        load_pending(str(tmp_path))

    assert f"Delete it, and record again: rm {PENDING_FOLDER}/ask-1.json" == caught.value.hint


def test_the_command_that_deletes_a_pending_change_is_quoted_for_the_shell(tmp_path: Path) -> None:
    """People copy it, and the name of a file may hold anything."""
    folder = tmp_path / PENDING_FOLDER
    folder.mkdir(parents=True)
    (folder / "x;touch pwned;.json").write_text("{")

    with pytest.raises(InvalidFile) as caught:
        load_pending(str(tmp_path))

    assert f"rm '{PENDING_FOLDER}/x;touch pwned;.json'" in caught.value.hint


@pytest.mark.parametrize(
    "record", [{}, {"source": 1}, {"source": {}, "request": {}}, {"request": [], "response": {}}]
)
def test_a_record_without_its_parts_is_a_damaged_change(tmp_path: Path, record: dict[str, object]) -> None:
    """Named with its file, as any other damage, before anything reads the record."""
    (change,) = propose(make_call("Say hello.", "Hello!")).changes
    save_pending(str(tmp_path), [change], [])
    (file,) = (tmp_path / PENDING_FOLDER).iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "record": record}))

    folder = scan_pending(str(tmp_path))

    assert ([], [f"{PENDING_FOLDER}/{file.name}"]) == (folder.changes, list(folder.errors))
    assert PENDING_FORMAT_RULE == folder.errors[f"{PENDING_FOLDER}/{file.name}"].findings[0].rule  # type: ignore[union-attr]


def test_equal_calls_are_listed_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    """The third poll of a batch says that it is done, and follows the second; the files are in another order."""
    (change,) = propose(make_call("Is it done?")).changes
    ids = ["ask-12345678", *(f"ask-12345678-{number}" for number in range(2, 12)), "ask-12345679"]
    save_pending(str(tmp_path), [replace(change, id=call_id) for call_id in ids], [])

    assert ids == [change.id for change in load_pending(str(tmp_path))]
