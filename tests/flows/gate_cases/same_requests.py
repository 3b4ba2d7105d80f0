"""The same request, sent in another way: green."""

from __future__ import annotations

from itertools import cycle

from support.gate_case import PROXY, PYTEST, TEST, XDIST, Case, Replace, green

DESK, CHAT, TOOLS = "desk.py", "chat_tests.py", "tools_tests.py"
POST = 'httpx.post(f"{base_url()}/{path}", params=QUERY, headers=headers(), json=body, timeout=30)'
TARGET = 'f"{base_url()}/{path}"'
JSON_HEAD = '{**headers(), "Content-Type": "application/json"}'
OTHER_WAYS = cycle((PYTEST, PROXY, XDIST))


def _sent(name: str, expression: str, imports: str = "json", **fields: object) -> Case:
    """The desk posts with another expression."""
    steps = (Replace(DESK, POST, expression), Replace(DESK, "import json\n", f"import {imports}\nimport json\n"))
    return green(name, *steps, **{"ways": (TEST, next(OTHER_WAYS)), **fields})


def _content(name: str, content: str, head: str = "") -> Case:
    """The same JSON in other bytes."""
    sent = f"httpx.post({TARGET}, headers={{**{JSON_HEAD}{head}}}, content={content}, timeout=30)"
    return _sent(name, sent, "gzip, random")


BODIES = [
    _content("the JSON is compact", 'json.dumps(body, separators=(",", ":"))'),
    _content("the JSON is indented", "json.dumps(body, indent=4)"),
    _content("the JSON has tabs and line breaks", 'json.dumps(body, indent="\\t").replace("\\n", "\\r\\n")'),
    _content("the keys are sorted", "json.dumps(body, sort_keys=True)"),
    _content("the keys are reversed", "json.dumps(dict(reversed(body.items())))"),
    _content("the keys are shuffled", "json.dumps(dict(random.sample(list(body.items()), len(body))))"),
    _content("the JSON is padded", 'f"  {json.dumps(body)}\\n\\n"'),
    _content("letters are escaped", 'json.dumps(body).replace("parcel", "p\\\\u0061rcel")'),
    _content("slashes are escaped", 'json.dumps(body).replace("/", "\\\\/")'),
    _content("whole numbers have a decimal point", 'json.dumps(body).replace("60,", "60.0,")'),
    _content("numbers have an exponent", 'json.dumps(body).replace(": 60,", ": 6e1,")'),
    _content("the body is compressed", "gzip.compress(json.dumps(body).encode())", ', "Content-Encoding": "gzip"'),
    _content("the body is sent in chunks", "iter([json.dumps(body).encode()[:9], json.dumps(body).encode()[9:]])"),
    _content("the body is sent as a generator", "(bytes([byte]) for byte in json.dumps(body).encode())"),
    _content("the body is bytes", "json.dumps(body).encode()"),
]

ASYNC = "asyncio.run(httpx.AsyncClient().post({target}, params=QUERY, headers=headers(), json=body, timeout=30))"
BODY = "headers=headers(), json=body"
SDK = "default_headers=HEADERS).post('/' + path, body=body, cast_to=httpx.Response"
POOL = "sys\nfrom concurrent.futures import ThreadPoolExecutor"
READ = """sys


def read(stream):
    with stream as answer:
        answer.read()
    return answer


import sys"""
REQUESTS = """requests


class Answer:
    def __init__(self, answer):
        self.json = answer.json
        self.raise_for_status = lambda: (answer.raise_for_status(), answer)[1]


import sys"""
CLIENTS = [
    _sent("a client is reused", POST.replace("httpx.post", "httpx.Client().post")),
    _sent("the client is asynchronous", ASYNC.format(target=TARGET), "asyncio"),
    _sent("the client follows redirects", POST.replace("timeout=30", "timeout=30, follow_redirects=True")),
    _sent("the client has another timeout", POST.replace("timeout=30", "timeout=5")),
    _sent("the client has no timeout", POST.replace("timeout=30", "timeout=None")),
    _sent("the client trusts no environment", POST.replace("timeout=30", "trust_env=False")),
    _sent("the client does not check certificates", POST.replace("timeout=30", "verify=False")),
    _sent("the request is built and sent", f"httpx.Client().send(httpx.Request('POST', {TARGET}, {BODY}))"),
    _sent("the method is a word", POST.replace("httpx.post(", 'httpx.request("POST", ')),
    _sent("the address is that of the client", f"httpx.Client(base_url=base_url()).post(path, {BODY})"),
    _sent("a thread sends the request", f"ThreadPoolExecutor(1).submit(httpx.post, {TARGET}, {BODY}).result()", POOL),
    _sent("the answer is streamed by the client", f"read(httpx.Client().stream('POST', {TARGET}, {BODY}))", READ),
    _sent("the client is requests", f"Answer(requests.post({TARGET}, {BODY}, timeout=30))", REQUESTS),
    _sent("the client is a session", f"Answer(requests.Session().post({TARGET}, {BODY}, timeout=30))", REQUESTS),
    _sent("the client is the SDK", f"openai.OpenAI({SDK})", "openai", ways=(TEST, PYTEST)),
    _sent("the SDK is asynchronous", f"asyncio.run(openai.AsyncOpenAI({SDK}))", "asyncio, openai", ways=(TEST,)),
]  # fmt: skip

FIELDS = [
    green(name, Replace(CHAT, before, after), ways=(TEST, PYTEST, PROXY))
    for name, before, after in (
        ("the user is another", '"user": "ada"', '"user": "bob"'),
        ("the user is gone", '    "user": "ada",\n', ""),
        ("prompt_cache_key is another", '"desk-1"', '"desk-2"'),
        ("prompt_cache_key is gone", '    "prompt_cache_key": "desk-1",\n', ""),
        ("safety_identifier is another", '"hash-1"', '"hash-2"'),
        ("safety_identifier is gone", '    "safety_identifier": "hash-1",\n', ""),
    )
] + [
    green("a user is added", Replace(DESK, "MORE = {}", 'MORE = {"user": "eve"}'), tests=f"{CHAT}::test_chat",
          ways=(TEST, PYTEST, PROXY)),
    green("the keys of a message are turned", Replace(DESK, '{"role": "user", "content": question}',
          '{"content": question, "role": "user"}')),
    green("the keys of a tool are turned", Replace(DESK, '"type": "object",\n            "properties"',
          '"required": ["number"], "type": "object",\n            "properties"'), tests=TOOLS),
    green("the seed is a float", Replace(DESK, '"seed": 7', '"seed": 7.0')),
    green("the temperature is a float", Replace(DESK, '"temperature": 0, "s', '"temperature": 0.0, "s')),
    green("the temperature is minus zero", Replace(DESK, '"temperature": 0, "s', '"temperature": -0.0, "s')),
]  # fmt: skip


def _renamed(name: str, *pairs: tuple[str, str]) -> Case:
    steps = [Replace(TOOLS, before, after, everywhere=True) for before, after in pairs]
    return green(name, *steps, tests=TOOLS, ways=(TEST, PYTEST, PROXY))


NEW_ID = '    call["id"] = "call_" + uuid.uuid4().hex\n    messages.append({"role": "assistant"'
IDS = [
    _renamed("the ids of tool calls are renamed", ("call_a", "call_x"), ("call_b", "call_y")),
    _renamed("one id of a tool call is renamed", ("call_b", "toolu_01")),
    _renamed("the ids of tool calls change places", ("call_a", "call_t"), ("call_b", "call_a"), ("call_t", "call_b")),
    _renamed("the ids of tool calls are long", ("call_a", f"call_{'a' * 60}"), ("call_b", f"call_{'b' * 60}")),
    green("the application invents the ids of tool calls",
          Replace(DESK, '    messages.append({"role": "assistant"', NEW_ID),
          Replace(DESK, "import json\n", "import json\nimport uuid\n"), tests=TOOLS),
]  # fmt: skip

CASES = {"another body": BODIES, "another client": CLIENTS, "a field that decides no answer": FIELDS, "an id": IDS}
