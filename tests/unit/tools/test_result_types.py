"""Results made again from their JSON, by the annotation of their function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple, Optional, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from traceforge.capture.hook.tool_messages import NotJson, decode_answer, encode_result
from traceforge.tools.result_types import make_result


class Course(StrEnum):
    """A text, but not only that."""

    SOUP = "soup"


class Dish(BaseModel):
    """With a name of its own in JSON."""

    course: Course
    price: Decimal = Field(alias="thePrice")


@dataclass
class Table:
    """With another class inside."""

    dishes: list[Dish]
    day: date
    number: int = field(default=0, compare=False)
    total: int = field(default=0, init=False)


class Place(NamedTuple):
    """A tuple that is a class."""

    table: int
    course: Course


class Order(TypedDict):
    """A dictionary of which the types are known."""

    place: Place


DISH = Dish(course=Course.SOUP, thePrice=Decimal("1.50"))


@pytest.mark.parametrize(
    ("of", "result"),
    [
        (Course, Course.SOUP),
        (Dish, DISH),
        (Dish | None, DISH),
        (Dish | None, None),
        (Optional[Dish], DISH),  # noqa: UP045
        (list[Dish], [DISH]),
        (Sequence[Dish], [DISH]),
        (dict[str, Dish], {"a": DISH}),
        (tuple[Dish, ...], (DISH, DISH)),
        (tuple[int, Dish], (1, DISH)),
        (Annotated[Dish, "a dish"], DISH),
        (Table, Table([DISH], date(2026, 1, 2), number=4)),
        (str | Table, Table([], date(2026, 1, 2))),
        (Place, Place(1, Course.SOUP)),
        (Order, {"place": Place(1, Course.SOUP)}),
        (datetime, datetime(2026, 1, 2, 3)),
        (UUID, UUID(int=5)),
        (PurePath, PurePath("a/b")),
        (list[Any], [1, "a"]),
        (None, {"a": [1]}),
    ],
    ids=str,
)
def test_a_result_is_made_again_by_its_annotation(of: Any, result: Any) -> None:
    def restore(fields: Any) -> Any:
        return make_result(of, fields)

    again = decode_answer(encode_result(result, restore), restore).result

    assert (type(result), result, repr(result)) == (type(again), again, repr(again))


@pytest.mark.parametrize(
    ("of", "result"),
    [
        (dict, {"course": Course.SOUP}),
        (Any, [Place(1, Course.SOUP)]),
        (list[str], [Course.SOUP]),
        (str | date, date(2026, 1, 2)),
        (Table | None, Table([], datetime(2026, 1, 2))),
        (Place, (1, "soup")),
    ],
    ids=str,
)
def test_a_result_of_another_type_than_its_annotation_is_refused(of: Any, result: Any) -> None:
    """It would be equal in the test, and a text where it was an enum."""

    def restore(fields: Any) -> Any:
        return make_result(of, fields)

    if of is Place:  # A plain tuple needs no annotation.
        assert result == decode_answer(encode_result(result, restore), restore).result
        return
    with pytest.raises(NotJson):
        encode_result(result, restore)
