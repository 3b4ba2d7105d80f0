"""A support desk that asks models over plain HTTP. The tests of the gate edit it, line by line."""

import json
import os

import httpx

SYSTEM = "You are the clerk of a shop. Be brief."
MODEL = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60}
MORE = {}
HEADERS = {"X-Feature": "desk", "X-Tenant": "north"}
QUERY = {}
PREFIX = ""
TOOL = {
    "type": "function",
    "function": {
        "name": "find_parcel",
        "description": "Find a parcel by its number.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string", "description": "Such as P-17."}},
            "required": ["number"],
            "additionalProperties": False,
        },
    },
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "mood",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"mood": {"type": "string", "enum": ["calm", "angry"]}},
            "required": ["mood"],
            "additionalProperties": False,
        },
    },
}


def base_url():
    return os.environ["OPENAI_BASE_URL"] + PREFIX


def headers():
    return {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}", **HEADERS}


def send(path, body):
    return httpx.post(f"{base_url()}/{path}", params=QUERY, headers=headers(), json=body, timeout=30)


def complete(messages, **fields):
    body = {**MODEL, "messages": messages, **fields, **MORE}
    return send("chat/completions", body).raise_for_status().json()["choices"][0]["message"]


def ask(question, **fields):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return complete(messages, **fields)["content"]


def stream(question):
    body = {**MODEL, "messages": [{"role": "user", "content": question}], "stream": True, **MORE}
    body["stream_options"] = {"include_usage": True}
    url = f"{base_url()}/chat/completions"
    with httpx.stream("POST", url, params=QUERY, headers=headers(), json=body, timeout=30) as response:
        response.raise_for_status()
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    return [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]


def run_tool(number):
    return json.dumps({"number": number, "status": "on its way"})


def converse(question):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    message = complete(messages, tools=[TOOL], tool_choice="required")
    call = message["tool_calls"][0]
    arguments = json.loads(call["function"]["arguments"])
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": call["id"], "content": run_tool(arguments["number"])})
    return complete(messages, tools=[TOOL], tool_choice="none")["content"]


def embed(text):
    body = {"model": "text-embedding-3-small", "input": text, "dimensions": 8}
    return send("embeddings", body).raise_for_status().json()["data"][0]["embedding"]


def refuse():
    return send("chat/completions", {"model": "gpt-4.1-mini", "temperature": 0, "messages": "none"}).status_code
