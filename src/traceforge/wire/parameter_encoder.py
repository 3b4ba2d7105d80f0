"""Parameters of the unified view in a dialect's own words.

In: parameters under OpenAI's names. Out: the same under the names of a dialect. Never: a parameter lost: one that has
no other name in a dialect keeps its own, so that parameters in the dialect's own words may stand beside, and count
more. (But `strict` of a function: Gemini has no word for it, and takes no field that it does not know.)

    max_tokens, max_completion_tokens, temperature, top_p, stop, seed, presence_penalty, frequency_penalty, n
    tools, tool_choice, response_format
"""

from __future__ import annotations

from collections.abc import Mapping

from traceforge.canon import JSON, JSONObject
from traceforge.wire import gemini, ollama
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import obj, objects, without

_LIMIT = "max_completion_tokens"  # OpenAI's newer name for max_tokens, which no other dialect has.


def encode_parameters(dialect: Dialect, parameters: Mapping[str, JSON]) -> JSONObject:
    """These parameters as the dialect says them."""
    if dialect is Dialect.OPENAI:
        return dict(parameters)
    known = without(parameters, (_LIMIT,))
    if _LIMIT in parameters:
        known.setdefault("max_tokens", parameters[_LIMIT])
    if dialect is Dialect.ANTHROPIC:
        return _anthropic(known)
    return _gemini(known) if dialect is Dialect.GEMINI else _ollama(known)


def _listed(stop: JSON) -> JSON:
    return [stop] if isinstance(stop, str) else stop


def _schema(wanted: JSON) -> JSON:
    """The schema of a response format; None where it demands any JSON."""
    return obj(obj(wanted).get("json_schema")).get("schema")


def _wants_json(wanted: JSON) -> bool:
    return obj(wanted).get("type") in ("json_object", "json_schema")


def _anthropic(parameters: JSONObject) -> JSONObject:
    told = without(parameters, ("stop", "tools", "tool_choice", "response_format"))
    if "stop" in parameters:
        told.setdefault("stop_sequences", _listed(parameters["stop"]))
    if "tools" in parameters:
        told["tools"] = [_anthropic_tool(tool) for tool in objects(parameters["tools"])]
    if "tool_choice" in parameters:
        told["tool_choice"] = _anthropic_choice(parameters["tool_choice"])
    wanted = parameters.get("response_format")
    if _schema(wanted) is not None:
        told["output_config"] = {
            "format": {"type": "json_schema", "schema": _schema(wanted)},
            **obj(told.get("output_config")),
        }
    elif wanted is not None and obj(wanted).get("type") != "text":
        told["response_format"] = wanted  # Any JSON at all cannot be asked for: the provider says so.
    return told


def _anthropic_tool(tool: JSONObject) -> JSON:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return tool
    built = {"name": function.get("name"), "input_schema": function.get("parameters") or {"type": "object"}}
    built |= {name: function[name] for name in ("description", "strict") if function.get(name) is not None}
    return {**built, **without(tool, ("type", "function"))}


def _anthropic_choice(choice: JSON) -> JSON:
    name = obj(obj(choice).get("function")).get("name")
    if name is not None:
        return {"type": "tool", "name": name}
    kinds = {"auto": "auto", "required": "any", "none": "none"}
    return {"type": kinds[choice]} if isinstance(choice, str) and choice in kinds else choice


def _gemini(parameters: JSONObject) -> JSONObject:
    back = {name: own for own, name in gemini.CONFIG.items()}
    told = without(parameters, (*back, "tools", "tool_choice", "response_format"))
    config: JSONObject = {
        own: _listed(parameters[name]) if name == "stop" else parameters[name]
        for name, own in back.items()
        if name in parameters
    }
    wanted = parameters.get("response_format")
    if _wants_json(wanted):
        config["responseMimeType"] = "application/json"
        if _schema(wanted) is not None:
            config["responseJsonSchema"] = _schema(wanted)
    if config:
        told["generationConfig"] = {**config, **obj(told.get("generationConfig"))}
    if "tools" in parameters:
        told["tools"] = _gemini_tools(objects(parameters["tools"]))
    if "tool_choice" in parameters:
        told["toolConfig"] = _gemini_choice(parameters["tool_choice"])
    return told


def _gemini_tools(tools: list[JSONObject]) -> list[JSON]:
    declared: list[JSON] = [without(obj(tool["function"]), ("strict",)) for tool in tools if _is_function(tool)]
    rest: list[JSON] = [tool for tool in tools if not _is_function(tool)]
    return [{"functionDeclarations": declared}, *rest] if declared else rest


def _is_function(tool: JSONObject) -> bool:
    return tool.get("type") == "function" and isinstance(tool.get("function"), dict)


def _gemini_choice(choice: JSON) -> JSON:
    name = obj(obj(choice).get("function")).get("name")
    if name is not None:
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}
    modes = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
    return (
        {"functionCallingConfig": {"mode": modes[choice]}} if isinstance(choice, str) and choice in modes else choice
    )


def _ollama(parameters: JSONObject) -> JSONObject:
    back = {name: own for own, name in ollama.OPTIONS.items()}
    told = without(parameters, (*back, "response_format"))
    options: JSONObject = {
        own: _listed(parameters[name]) if name == "stop" else parameters[name]
        for name, own in back.items()
        if name in parameters
    }
    if options:
        told["options"] = {**options, **obj(told.get("options"))}
    wanted = parameters.get("response_format")
    if _wants_json(wanted):
        told.setdefault("format", _schema(wanted) if _schema(wanted) is not None else "json")
    return told
