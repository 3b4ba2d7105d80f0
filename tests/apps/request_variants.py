"""A conftest.py that changes the form of the agent's requests, not their meaning: `support.gate_variants` copies it.

Each variable of the environment changes one thing: VARIANT_BODY the bytes of a request, VARIANT_HEADERS its headers,
VARIANT_ORDER the order of the tests, VARIANT_DAYS the date.
"""

import json
import os
import random
import time

import openai._base_client as base
from openai._base_client import httpx2

BODY, HEADERS, ORDER = (os.environ.get(f"VARIANT_{name}", "") for name in ("BODY", "HEADERS", "ORDER"))


def shuffle_keys(value, chance):
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffle_keys(value[key], chance) for key in keys}
    return [shuffle_keys(item, chance) for item in value] if isinstance(value, list) else value


def vary_body(data):
    value = json.loads(data)
    if BODY == "sorted":
        return json.dumps(value, sort_keys=True)
    if BODY.startswith("shuffled-"):
        return json.dumps(shuffle_keys(value, random.Random(BODY)))
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


def vary_headers(pairs):
    if HEADERS == "reversed":
        return pairs[::-1]
    if HEADERS.startswith("shuffled-"):
        random.Random(HEADERS).shuffle(pairs)
        return pairs
    if HEADERS == "upper":
        return [(name.upper(), value) for name, value in pairs]
    return pairs + [tuple(pair.split("=", 1)) for pair in filter(None, HEADERS.split("&"))]


def build_varied_request(client, *arguments, **named):
    request = build_request(client, *arguments, **named)
    content = vary_body(request.content) if BODY else request.content
    pairs = [pair for pair in request.headers.multi_items() if pair[0] != "content-length"]
    settings = {"headers": vary_headers(pairs), "content": content, "extensions": request.extensions}
    return httpx2.Request(request.method, request.url, **settings)


build_request = base.BaseClient._build_request
base.BaseClient._build_request = build_varied_request

if days := int(os.environ.get("VARIANT_DAYS", "0")):
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + days * 86_400
    time.time_ns = lambda: now_ns() + days * 86_400 * 10**9


def pytest_collection_modifyitems(items):
    if ORDER == "reversed":
        items.reverse()
    elif ORDER:
        random.Random(ORDER).shuffle(items)
