"""A conftest.py that changes how the agent asks, and never what: copied into a project by `support.gate_variants`.

Each variable of the environment changes one thing: TURNED_BODY the bytes of a request, TURNED_HEADERS its headers,
TURNED_ORDER the order of the tests, TURNED_DAYS the date.
"""

import json
import os
import random
import time

import openai._base_client as base
from openai._base_client import httpx2

BODY, HEADERS, ORDER = (os.environ.get(f"TURNED_{name}", "") for name in ("BODY", "HEADERS", "ORDER"))


def shuffled(value, chance):
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


def body(data):
    value = json.loads(data)
    if BODY == "sorted":
        return json.dumps(value, sort_keys=True)
    if BODY.startswith("shuffled-"):
        return json.dumps(shuffled(value, random.Random(BODY)))
    if BODY.startswith("indent-"):
        return json.dumps(value, indent=int(BODY[7:]))
    return {
        "ascii": json.dumps(value, ensure_ascii=True),
        "raw": json.dumps(value, ensure_ascii=False),
        "compact": json.dumps(value, separators=(",", ":")),
        "wide": json.dumps(value, separators=("  ,\t", " :\r\n")),
        "tabs": json.dumps(value, indent="\t"),
        "padded": f"\n  {json.dumps(value)}\n\n",
        "escaped": json.dumps(value).replace("order", "\\u006frder"),
        "floats": json.dumps(value).replace('"temperature": 0,', '"temperature": 0.0,').replace(": 300", ": 3e2"),
    }[BODY]


def headers(pairs):
    if HEADERS == "reversed":
        return pairs[::-1]
    if HEADERS.startswith("shuffled-"):
        random.Random(HEADERS).shuffle(pairs)
        return pairs
    if HEADERS == "upper":
        return [(name.upper(), value) for name, value in pairs]
    return pairs + [tuple(one.split("=", 1)) for one in filter(None, HEADERS.split("&"))]


def turned(client, *arguments, **named):
    request = build(client, *arguments, **named)
    content = body(request.content) if BODY else request.content
    pairs = [pair for pair in request.headers.multi_items() if pair[0] != "content-length"]
    extensions = request.extensions
    return httpx2.Request(request.method, request.url, headers=headers(pairs), content=content, extensions=extensions)


build = base.BaseClient._build_request
base.BaseClient._build_request = turned

if days := int(os.environ.get("TURNED_DAYS", "0")):
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + days * 86_400
    time.time_ns = lambda: now_ns() + days * 86_400 * 10**9


def pytest_collection_modifyitems(items):
    if ORDER == "reversed":
        items.reverse()
    elif ORDER:
        random.Random(ORDER).shuffle(items)
