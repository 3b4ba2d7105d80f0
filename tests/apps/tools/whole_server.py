"""A tool server in no more than the standard library that does all that the protocol has, over stdio.

It asks its client a question of each kind (`ask`), lists its tools in pages, and has one tool more after `grow`.
"""

import itertools
import json
import sys
from pathlib import Path

LOG = Path(__file__).with_name("server.log")
TOOLS = ["ask", "grow", "fail"]
RESOURCE = {"uri": "notes://all", "name": "all"}
PROMPT = {"name": "greet", "arguments": [{"name": "who", "required": True}]}
ASK = {"message": "How many?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "why"}}], "maxTokens": 5}
HELLO = {
    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}},
    "serverInfo": {"name": "whole", "version": "1"},
}
numbers = itertools.count()


def log(line):
    with LOG.open("a") as file:
        file.write(line + "\n")


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params=None):
    """A question to the client, and its answer."""
    number = f"question-{next(numbers)}"
    send(id=number, method=method, **({"params": params} if params else {}))
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result") or message["error"]
    raise SystemExit


def list_tools(params):
    start = int(params.get("cursor", 0))
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS[start : start + 2]]
    return {"tools": tools, **({"nextCursor": str(start + 2)} if start + 2 < len(TOOLS) else {})}


def call_tool(params):
    log(f"call {params['name']}")
    if params["name"] == "fail":
        return {"content": [{"type": "text", "text": "no"}], "isError": True}
    if params["name"] == "grow":
        TOOLS.append("shrink")
        send(method="notifications/tools/list_changed")
        return {"content": [{"type": "text", "text": "one tool more"}]}
    send(method="notifications/message", params={"level": "info", "data": "asking"})
    elicited = ask("elicitation/create", ASK)
    roots = ask("roots/list")["roots"]
    sampled = ask("sampling/createMessage", SAMPLE)["content"]["text"]
    text = f"{elicited['action']} {elicited.get('content')}, {len(roots)} roots, {sampled}"
    return {"content": [{"type": "text", "text": text}]}


ANSWERS = {
    "initialize": lambda params: {"protocolVersion": params["protocolVersion"], **HELLO},
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": lambda params: {"resources": [RESOURCE]},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": "milk"}]},
    "prompts/list": lambda params: {"prompts": [PROMPT]},
    "prompts/get": lambda params: {
        "messages": [{"role": "user", "content": {"type": "text", "text": f"Hello {params['arguments']['who']}"}}]
    },
}

log("started")
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    answer = ANSWERS.get(message["method"])
    if answer is None:
        send(id=message["id"], error={"code": -32601, "message": f"no {message['method']} here"})
    else:
        send(id=message["id"], result=answer(message.get("params", {})))
