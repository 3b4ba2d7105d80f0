"""The index, by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exchanges import moment, plain_kept, trace_id
from traceforge.traces.index import Filter, Index, Place, Row, row_number
from traceforge.traces.summary import Summary


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An empty one."""
    return Index(str(tmp_path))


def _row(number: int, place: Place = Place(), **fields: object) -> Row:  # noqa: B008 (frozen)
    base = plain_kept(number).summary
    return Row(Summary(**{**{f: getattr(base, f) for f in base.__struct_fields__}, **fields}), place)


def _add(index: Index, *rows: Row) -> None:
    with index.changing():
        index.add(rows)


def test_what_was_put_in_comes_out(index: Index) -> None:
    """Every field and the place, newest first."""
    rows = [_row(1), _row(2, Place("spool/a", 7)), _row(3, Place("archive/b", 2), tokens=None, step_index=None)]
    _add(index, *rows)

    assert rows[::-1] == index.rows(Filter())
    assert rows[:2] == index.rows(Filter(), 2, oldest_first=True)
    assert rows[1] == index.find(rows[1].summary.file_name)
    assert ({"spool/a"}, {"archive/b"}) == (index.containers("spool"), index.containers("archive"))


def test_a_row_that_is_there_moves_and_keeps_its_words(index: Index) -> None:
    """A name stands in one place."""
    _add(index, _row(1, Place("spool/a", 0)))
    ((number, _),) = index.without_words(9)
    index.add_words([(number, "marzipan")])

    for place in (Place("", 123), Place("archive/x", 4)):
        _add(index, _row(1, place))

        assert [_row(1, place)] == index.rows(Filter())
        assert 1 == len(index.search("marzipan", Filter(), 9))


def test_a_file_that_changed_loses_its_words(index: Index) -> None:
    """They are read again."""
    _add(index, _row(1, Place("", 1)))
    index.add_words([(number, "marzipan") for number, _ in index.without_words(9)])
    _add(index, _row(1, Place("", 2), model="other"))

    assert [] == index.search("marzipan", Filter(), 9)
    assert [_row(1, Place("", 2), model="other")] == [row for _, row in index.without_words(9)]


def test_words_that_two_processes_add_are_there_once(tmp_path: Path) -> None:
    """Nor do those of a row that is gone come back."""
    one, other = Index(str(tmp_path)), Index(str(tmp_path))
    _add(one, _row(1), _row(2))
    todo = [(number, "marzipan") for number, _ in one.without_words(9)]
    assert todo == [(number, "marzipan") for number, _ in other.without_words(9)]

    one.add_words(todo[:1])
    with other.changing():
        other.remove([_row(1).summary.file_name])
        other.add_words(todo)

    assert 1 == len(one.search("marzipan", Filter(), 9))
    one.close()
    other.close()


def test_a_change_happens_whole_or_not_at_all(index: Index) -> None:
    """A stop in the middle leaves what was."""

    def stopped() -> None:
        with index.changing():
            index.add([_row(1)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()

    assert [] == index.rows(Filter())


def test_rows_of_one_millisecond_whose_ids_begin_alike_are_all_there(index: Index) -> None:
    """Their numbers are made different."""
    at = moment(1)
    ids = [trace_id(0)[:-1] + digit for digit in "0123456789"]
    _add(index, *(_row(0, id=name, timestamp=at) for name in ids))

    assert 10 == index.count(Filter()) == len(index.rows(Filter(since=at, until=moment(2))))


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z"])
def test_every_time_has_a_number_that_sqlite_holds(index: Index, at: str) -> None:
    """Also one that no day has."""
    row = _row(1, timestamp=at)
    _add(index, row)

    assert abs(row_number(row.summary)) < 2**63
    assert [row] == index.rows(Filter())


def test_what_was_remembered_can_be_forgotten(index: Index) -> None:
    """Stamps of folders and containers."""
    index.remember("x", 5)

    assert (5, -1) == (index.stamp("x"), index.stamp("y"))
    index.forget("x")
    assert -1 == index.stamp("x")


def test_an_index_in_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    """It answers like any other."""
    index = Index(str(tmp_path), in_memory=True)
    _add(index, _row(1))

    assert 1 == index.count(Filter())
    index.close()
    assert [] == list(tmp_path.iterdir())
