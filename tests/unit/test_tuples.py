"""Named tuples are what the standard library makes of the same class."""

from __future__ import annotations

import pickle
import typing
from typing import Any, get_type_hints

import msgspec
import pytest

from traceforge.tuples import NamedTuple


class Ours(NamedTuple):
    """A point."""

    x: int
    y: tuple[int, ...] = ()
    name: str | None = None

    @property
    def far(self) -> bool:
        """Is it?"""
        return self.x > 9

    def moved(self, by: int) -> Ours:
        """Further on."""
        return self._replace(x=self.x + by)


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: tuple[int, ...] = ()
    name: str | None = None


@pytest.mark.parametrize(
    "of",
    [
        lambda one: one._fields,
        lambda one: one._field_defaults,
        lambda one: one.__doc__,
        lambda one: one.__mro__[1:],
        lambda one: one.__module__,
        get_type_hints,
        lambda one: tuple(one(1)),
        lambda one: one(1, (2,), name="a")._asdict(),
        lambda one: repr(one(1)).partition("(")[2],
        lambda one: one._make([1, (), None]) == (1, (), None),
        lambda one: hash(one(1)) == hash((1, (), None)),
        lambda one: tuple(msgspec.convert([3, [4]], one)),
    ],
)
def test_everything_is_as_the_standard_library_has_it(of: Any) -> None:
    """Fields, defaults, documentation, types, values."""
    assert of(Theirs) == of(Ours)


def test_a_class_has_what_its_body_says() -> None:
    """Properties and methods; and it is found again by its name."""
    one = Ours(9)

    assert (False, True) == (one.far, one.moved(1).far)
    assert "Ours(x=10, y=(), name=None)" == repr(one.moved(1))
    assert one == pickle.loads(pickle.dumps(one))
    assert Ours is type(pickle.loads(pickle.dumps(one)))


def test_a_value_that_lacks_a_field_is_none() -> None:
    """As everywhere."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Ours()  # type: ignore[call-arg]  # that is the point
