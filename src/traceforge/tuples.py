"""Named tuples, made in half the time.

In: a class as for `typing.NamedTuple`. Out: the same class. Never: looks at an annotation: the standard library
compiles the text of each when the module is imported, in case somebody asks what it means, and nobody asks us. What a
test run imports is half named tuples by count, and its user waits for them.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    _SET_ALREADY = frozenset({"__annotations__", "__module__"})

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, members)
            fields = members["__annotations__"]
            defaults = [members[field] for field in fields if field in members]
            made = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = fields
            for member, value in members.items():
                if member not in fields and member not in _SET_ALREADY:
                    setattr(made, member, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """As `typing.NamedTuple`, of which a type checker takes it for the other name."""
