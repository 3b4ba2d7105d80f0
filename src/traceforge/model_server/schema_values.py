"""Values that fit a JSON schema: the arguments of a tool, or an answer that must be JSON.

Words of the conversation are preferred where they fit (an order number, a value of an enum); everything else is
thrown with the dice. Knows the part of JSON Schema that tools are described with, in OpenAI's and Gemini's spelling.
"""

from __future__ import annotations

import re
from typing import Any

from traceforge.model_server.seeded_choice import Dice

DEPTH_MAX = 8  # A schema that refers to itself ends here.
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "iris", "juniper", "kelp", "lark")
FORMATS = {
    "date": "2026-01-15", "date-time": "2026-01-15T09:30:00Z", "time": "09:30:00Z", "email": "someone@example.com",
    "uri": "https://example.com/", "uuid": "3f2b8c1e-5d4a-4e6f-9a7b-1c2d3e4f5a6b",
}  # fmt: skip
CODE = re.compile(r"\b[A-Z][A-Z0-9]*-[A-Z0-9-]*\d\b")  # A-1001: what people call an id.


def fill(schema: dict[str, Any], dice: Dice, conversation: str) -> Any:
    """A value that fits `schema`."""
    return _Filler(schema, dice, conversation).value(schema, "", 0)


class _Filler:
    def __init__(self, root: dict[str, Any], dice: Dice, conversation: str) -> None:
        self._root, self._dice, self._conversation = root, dice, conversation

    def value(self, schema: Any, name: str, depth: int) -> Any:
        if not isinstance(schema, dict):
            return None
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._mentioned(schema["enum"]) or self._dice.pick(schema["enum"])
        kind = self._kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            count = max(schema.get("minItems", 1), 0) if depth < DEPTH_MAX else schema.get("minItems", 0)
            return [self.value(schema.get("items", {"type": "string"}), name, depth + 1) for _ in range(count)]
        if kind == "string":
            return self._string(schema, name)
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        return self._dice.pick([True, False]) if kind == "boolean" else None

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Without references and choices."""
        for _ in range(DEPTH_MAX):
            if "$ref" in schema:
                found: Any = self._root
                for step in schema["$ref"].lstrip("#/").split("/"):
                    found = found.get(step, {}) if step else found
                schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
            elif "allOf" in schema:
                merged = {key: value for key, value in schema.items() if key != "allOf"}
                for one in schema["allOf"]:
                    merged |= one
                schema = merged
            elif options := schema.get("anyOf") or schema.get("oneOf"):
                rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
                schema = rest | next((one for one in options if one.get("type") != "null"), options[0])
            else:
                break
        return schema

    @staticmethod
    def _kind(schema: dict[str, Any]) -> str:
        kind = schema.get("type") or ("object" if "properties" in schema else "string")
        kinds = [kind] if isinstance(kind, str) else [one for one in kind if one != "null"] or ["null"]
        return str(kinds[0]).lower()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required")
        wanted = [name for name in sorted(properties) if required is None or name in required or depth < DEPTH_MAX]
        if depth >= DEPTH_MAX:
            wanted = [name for name in wanted if name in (required or ())]
        return {name: self.value(properties[name], name, depth + 1) for name in wanted}

    def _string(self, schema: dict[str, Any], name: str) -> str:
        if pattern := schema.get("pattern"):
            said = re.finditer(pattern.removeprefix("^").removesuffix("$"), self._conversation)
            return next((found[0] for found in reversed(list(said))), "") or _example(pattern, self._dice)
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        codes = CODE.findall(self._conversation)
        if codes and re.search(r"(^|_)(id|number|code|key)$", name):
            return str(codes[-1])
        text = f"{self._dice.pick(WORDS)} {self._dice.pick(WORDS)}"
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]

    def _number(self, schema: dict[str, Any], kind: str) -> int | float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 100) - ("exclusiveMaximum" in schema))
        step = schema.get("multipleOf", 1)
        low, high = -(-low // step), high // step
        found = self._dice.number(int(low), max(int(low), int(high))) * step
        return int(found) if kind == "integer" else found

    def _mentioned(self, options: list[Any]) -> Any:
        """The option that the conversation names last."""
        places = {one: self._conversation.lower().rfind(one.lower()) for one in options if isinstance(one, str)}
        best = max(places, key=lambda one: places[one], default=None)
        return best if best is not None and places[best] >= 0 else None


def _example(pattern: str, dice: Dice) -> str:
    """A text for the plain patterns of ids: literals, classes, `\\d`, `\\w` and counts."""
    made = []
    for found in re.finditer(r"(\\[dw]|\[[^\]]+\]|\\?[^\\{}^$()|+*?])(?:\{(\d+)[^}]*\})?", pattern):
        one, count = found[1], int(found[2] or 1)
        made += [_character(one, dice) for _ in range(count)]
    return "".join(made)


def _character(one: str, dice: Dice) -> str:
    if one == r"\d":
        return str(dice.number(0, 9))
    if one == r"\w":
        return dice.pick("abcdefghijkmnpqrstuvwxyz")
    if one.startswith("["):
        ranges = re.findall(r"(.)-(.)", one[1:-1])
        low, high = ranges[0] if ranges else (one[1], one[1])
        return chr(dice.number(ord(low), ord(high)))
    return one[-1]
