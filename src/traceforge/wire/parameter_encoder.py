"""Unified parameters under the names of a dialect.

In: parameters under OpenAI's names. Out: the same under the names of a dialect. Never: a lost parameter: one that the
dialect does not rename keeps its name, so callers may also use the dialect's own names, which win. (One exception:
`strict` of a function, because Gemini has no such field and refuses unknown ones.)

    max_tokens, max_completion_tokens, temperature, top_p, stop, seed, presence_penalty, frequency_penalty, n
    tools, tool_choice, response_format
"""

from __future__ import annotations

from collections.abc import Mapping

from traceforge.canon import JSON, JSONObject
from traceforge.wire import gemini, ollama
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import as_object, list_objects, without_fields

_LIMIT = "max_completion_tokens"  # OpenAI's newer name for max_tokens, which no other dialect has.


def encode_parameters(dialect: Dialect, parameters: Mapping[str, JSON]) -> JSONObject:
    """The parameters under the names of the dialect."""
    if dialect is Dialect.OPENAI:
        return dict(parameters)
    unified = without_fields(parameters, (_LIMIT,))
    if _LIMIT in parameters:
        unified.setdefault("max_tokens", parameters[_LIMIT])
    if dialect is Dialect.ANTHROPIC:
        return _anthropic(unified)
    return _gemini(unified) if dialect is Dialect.GEMINI else _ollama(unified)


def _stop_list(stop: JSON) -> JSON:
    return [stop] if isinstance(stop, str) else stop


def _schema(response_format: JSON) -> JSON:
    """The schema of a response format; None where it demands any JSON."""
    return as_object(as_object(response_format).get("json_schema")).get("schema")


def _is_json_format(response_format: JSON) -> bool:
    return as_object(response_format).get("type") in ("json_object", "json_schema")


def _anthropic(parameters: JSONObject) -> JSONObject:
    encoded = without_fields(parameters, ("stop", "tools", "tool_choice", "response_format"))
    if "stop" in parameters:
        encoded.setdefault("stop_sequences", _stop_list(parameters["stop"]))
    if "tools" in parameters:
        encoded["tools"] = [_anthropic_tool(tool) for tool in list_objects(parameters["tools"])]
    if "tool_choice" in parameters:
        encoded["tool_choice"] = _anthropic_choice(parameters["tool_choice"])
    response_format = parameters.get("response_format")
    if _schema(response_format) is not None:
        encoded["output_config"] = {
            "format": {"type": "json_schema", "schema": _schema(response_format)},
            **as_object(encoded.get("output_config")),
        }
    elif response_format is not None and as_object(response_format).get("type") != "text":
        encoded["response_format"] = (
            response_format  # Anthropic has no word for "any JSON": its API refuses this field with a clear error.
        )
    return encoded


def _anthropic_tool(tool: JSONObject) -> JSON:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    encoded = {"name": function.get("name"), "input_schema": function.get("parameters") or {"type": "object"}}
    encoded |= {name: function[name] for name in ("description", "strict") if function.get(name) is not None}
    return {**encoded, **without_fields(tool, ("type", "function"))}


def _anthropic_choice(choice: JSON) -> JSON:
    name = as_object(as_object(choice).get("function")).get("name")
    if name is not None:
        return {"type": "tool", "name": name}
    kinds = {"auto": "auto", "required": "any", "none": "none"}
    return {"type": kinds[choice]} if isinstance(choice, str) and choice in kinds else choice


def _gemini(parameters: JSONObject) -> JSONObject:
    native_names = {name: own for own, name in gemini.PARAMETER_NAMES.items()}
    encoded = without_fields(parameters, (*native_names, "tools", "tool_choice", "response_format"))
    config: JSONObject = {
        own: _stop_list(parameters[name]) if name == "stop" else parameters[name]
        for name, own in native_names.items()
        if name in parameters
    }
    response_format = parameters.get("response_format")
    if _is_json_format(response_format):
        config["responseMimeType"] = "application/json"
        if _schema(response_format) is not None:
            config["responseJsonSchema"] = _schema(response_format)
    if config:
        encoded["generationConfig"] = {**config, **as_object(encoded.get("generationConfig"))}
    if "tools" in parameters:
        encoded["tools"] = _gemini_tools(list_objects(parameters["tools"]))
    if "tool_choice" in parameters:
        encoded["toolConfig"] = _gemini_choice(parameters["tool_choice"])
    return encoded


def _gemini_tools(tools: list[JSONObject]) -> list[JSON]:
    declarations: list[JSON] = [
        without_fields(as_object(tool["function"]), ("strict",)) for tool in tools if _is_function(tool)
    ]
    other_tools: list[JSON] = [tool for tool in tools if not _is_function(tool)]
    return [{"functionDeclarations": declarations}, *other_tools] if declarations else other_tools


def _is_function(tool: JSONObject) -> bool:
    return tool.get("type") == "function" and isinstance(tool.get("function"), dict)


def _gemini_choice(choice: JSON) -> JSON:
    name = as_object(as_object(choice).get("function")).get("name")
    if name is not None:
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}
    modes = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
    return (
        {"functionCallingConfig": {"mode": modes[choice]}} if isinstance(choice, str) and choice in modes else choice
    )


def _ollama(parameters: JSONObject) -> JSONObject:
    native_names = {name: own for own, name in ollama.OPTION_NAMES.items()}
    encoded = without_fields(parameters, (*native_names, "response_format"))
    options: JSONObject = {
        own: _stop_list(parameters[name]) if name == "stop" else parameters[name]
        for name, own in native_names.items()
        if name in parameters
    }
    if options:
        encoded["options"] = {**options, **as_object(encoded.get("options"))}
    response_format = parameters.get("response_format")
    if _is_json_format(response_format):
        encoded.setdefault("format", _schema(response_format) if _schema(response_format) is not None else "json")
    return encoded
