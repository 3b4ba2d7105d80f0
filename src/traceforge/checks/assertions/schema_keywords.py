"""Keywords of a JSON Schema that are misspelt.

In: a schema. Out: a problem for each unknown keyword that is nearly a known one. Never: refuses a keyword that is
like none: a schema may have any, and a validator passes over it. That is why `requierd` would demand nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.canon import json_path
from traceforge.findings import nearest_name
from traceforge.shape import ShapeProblem

LIKENESS = 0.8  # `requierd` is 0.88 like `required`; `minimal` is 0.71 like `minimum`.

_LISTED_KEYWORDS = """
$schema $id $ref $anchor $dynamicRef $dynamicAnchor $vocabulary $comment $defs definitions id allOf anyOf
oneOf not if then else dependentSchemas dependentRequired dependencies prefixItems items additionalItems
unevaluatedItems contains minContains maxContains properties patternProperties additionalProperties
unevaluatedProperties propertyNames type enum const multipleOf maximum exclusiveMaximum minimum
exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxProperties minProperties
required format contentEncoding contentMediaType contentSchema title description default deprecated readOnly
writeOnly examples example nullable discriminator
"""
_KEYWORDS = frozenset(_LISTED_KEYWORDS.split())
# Their members are names of the user with a schema each, or plain values.
_NAMED_SCHEMAS = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"enum", "const", "default", "examples", "example", "dependentRequired", "dependencies"})


def find_misspelt_keywords(schema: object, path: str) -> Iterator[ShapeProblem]:
    """A problem for each keyword that is nearly a known one, at its place."""
    if isinstance(schema, list):
        for place, item in enumerate(schema):
            yield from find_misspelt_keywords(item, json_path(path, place))
    if not isinstance(schema, dict):
        return
    for name, member in schema.items():
        place_of_name = json_path(path, name)
        if name in _NAMED_SCHEMAS and isinstance(member, dict):
            for key, inner in member.items():
                yield from find_misspelt_keywords(inner, json_path(place_of_name, key))
        elif name in _KEYWORDS - _VALUES:
            yield from find_misspelt_keywords(member, place_of_name)
        elif name not in _KEYWORDS and (nearest := nearest_name(name, _KEYWORDS, LIKENESS)):
            yield ShapeProblem(
                place_of_name, f"is not a keyword of JSON Schema, so it would have no effect: did you mean {nearest}?"
            )
