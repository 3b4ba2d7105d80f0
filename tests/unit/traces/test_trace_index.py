"""The index, by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exchanges import plain_trace, timestamp, trace_id
from traceforge.traces.trace_index import TraceFilter, TraceIndex, TraceLocation, TraceRow, row_number
from traceforge.traces.trace_summary import TraceSummary


@pytest.fixture
def index(tmp_path: Path) -> TraceIndex:
    """An empty one."""
    return TraceIndex(str(tmp_path))


def _row(number: int, place: TraceLocation = TraceLocation(), **fields: object) -> TraceRow:  # noqa: B008 (frozen)
    base = plain_trace(number).summary
    return TraceRow(TraceSummary(**{**{f: getattr(base, f) for f in base.__struct_fields__}, **fields}), place)


def _add(index: TraceIndex, *rows: TraceRow) -> None:
    with index.transaction():
        index.add_rows(rows)


def test_rows_are_read_as_they_were_added(index: TraceIndex) -> None:
    """Every field and the place, newest first."""
    rows = [
        _row(1),
        _row(2, TraceLocation("spool/a", 7)),
        _row(3, TraceLocation("archive/b", 2), tokens=None, step_index=None),
    ]
    _add(index, *rows)

    assert rows[::-1] == index.list_rows(TraceFilter())
    assert rows[:2] == index.list_rows(TraceFilter(), 2, oldest_first=True)
    assert rows[1] == index.find_by_name(rows[1].summary.file_name)
    assert ({"spool/a"}, {"archive/b"}) == (index.containers("spool"), index.containers("archive"))


def test_an_existing_row_moves_and_keeps_its_text(index: TraceIndex) -> None:
    """A name has one row."""
    _add(index, _row(1, TraceLocation("spool/a", 0)))
    ((number, _),) = index.rows_without_text(9)
    index.add_texts([(number, "marzipan")])

    for place in (TraceLocation("", 123), TraceLocation("archive/x", 4)):
        _add(index, _row(1, place))

        assert [_row(1, place)] == index.list_rows(TraceFilter())
        assert 1 == len(index.search("marzipan", TraceFilter(), 9))


def test_a_replaced_file_loses_its_text(index: TraceIndex) -> None:
    """They are read again."""
    _add(index, _row(1, TraceLocation("", 1)))
    index.add_texts([(number, "marzipan") for number, _ in index.rows_without_text(9)])
    _add(index, _row(1, TraceLocation("", 2), model="other"))

    assert [] == index.search("marzipan", TraceFilter(), 9)
    assert [_row(1, TraceLocation("", 2), model="other")] == [row for _, row in index.rows_without_text(9)]


def test_texts_that_two_processes_add_are_stored_once(tmp_path: Path) -> None:
    """Nor do those of a row that is gone come back."""
    first, other = TraceIndex(str(tmp_path)), TraceIndex(str(tmp_path))
    _add(first, _row(1), _row(2))
    todo = [(number, "marzipan") for number, _ in first.rows_without_text(9)]
    assert todo == [(number, "marzipan") for number, _ in other.rows_without_text(9)]

    first.add_texts(todo[:1])
    with other.transaction():
        other.remove_rows([_row(1).summary.file_name])
        other.add_texts(todo)

    assert 1 == len(first.search("marzipan", TraceFilter(), 9))
    first.close()
    other.close()


def test_a_transaction_is_committed_completely_or_not_at_all(index: TraceIndex) -> None:
    """A stop in the middle leaves what was."""

    def stopped() -> None:
        with index.transaction():
            index.add_rows([_row(1)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()

    assert [] == index.list_rows(TraceFilter())


def test_rows_of_one_millisecond_with_similar_ids_are_all_stored(index: TraceIndex) -> None:
    """Their numbers are made different."""
    at = timestamp(1)
    ids = [trace_id(0)[:-1] + digit for digit in "0123456789"]
    _add(index, *(_row(0, id=name, timestamp=at) for name in ids))

    assert 10 == index.count_rows(TraceFilter()) == len(index.list_rows(TraceFilter(since=at, until=timestamp(2))))


def test_new_rows_are_added_with_one_statement_each(index: TraceIndex) -> None:
    """A recorder adds thousands a second."""
    statements: list[str] = []
    index._connection.set_trace_callback(statements.append)

    _add(index, *(_row(number) for number in range(1, 101)))

    assert 100 == index.count_rows(TraceFilter())
    assert len(statements) <= 100 + 3  # and those of the transaction and the count


def test_a_batch_may_mix_new_moved_replaced_and_repeated_rows(index: TraceIndex) -> None:
    """Each ends as if it had been added alone, in the order of the batch."""
    _add(index, _row(1, TraceLocation("spool/a", 0)), _row(2, TraceLocation("", 1)))
    index.add_texts([(number, "marzipan") for number, _ in index.rows_without_text(9)])
    batch = [_row(1, TraceLocation("", 7)), _row(2, TraceLocation("", 2)), _row(3, TraceLocation("", 3))]

    _add(index, *batch, _row(3, TraceLocation("", 4)))

    expected = [*batch[:2], _row(3, TraceLocation("", 4))]
    assert expected == index.list_rows(TraceFilter(), oldest_first=True)
    assert [batch[0].summary] == [hit.summary for hit in index.search("marzipan", TraceFilter(), 9)]


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z"])
def test_every_time_has_a_number_that_sqlite_holds(index: TraceIndex, at: str) -> None:
    """Also one that no day has."""
    row = _row(1, timestamp=at)
    _add(index, row)

    assert abs(row_number(row.summary)) < 2**63
    assert [row] == index.list_rows(TraceFilter())


def test_stamps_can_be_deleted(index: TraceIndex) -> None:
    """Stamps of folders and containers."""
    index.save_stamp("x", 5)

    assert (5, -1) == (index.read_stamp("x"), index.read_stamp("y"))
    index.delete_stamp("x")
    assert -1 == index.read_stamp("x")


def test_an_index_in_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    """It answers like any other."""
    index = TraceIndex(str(tmp_path), in_memory=True)
    _add(index, _row(1))

    assert 1 == index.count_rows(TraceFilter())
    index.close()
    assert [] == list(tmp_path.iterdir())
