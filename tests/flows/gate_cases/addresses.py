"""Where a request goes and which headers it has."""

from __future__ import annotations

from flows.gate_cases.request_changes import SAYS
from support.gate_case import PROXY, PYTEST, TEST, Case, Checkout, Command, Configure, Replace, green, red

DESK = "desk.py"
BASE = 'os.environ["OPENAI_BASE_URL"] + PREFIX'
HEADERS = '"X-Tenant": "north"'


def _at(address: str) -> Replace:
    """The address in the code, where no variable can restore it."""
    return Replace(DESK, BASE, f'"{address}"')


def _other(address: str) -> Case:
    return red(f"calls go to {address}", _at(address), says="same_as", ways=(TEST, PYTEST))


def _with_header(name: str, value: str) -> Replace:
    return Replace(DESK, HEADERS, f'{HEADERS}, "{name}": "{value}"')


def _header(name: str, value: str) -> Case:
    """A header that decides no answer."""
    return green(f"the header {name} is {value}", _with_header(name, value), ways=(TEST,))


OTHER_UPSTREAMS = [
    _other("https://api.openai.com/v1"),
    _other("https://api.groq.com/openai/v1"),
    _other("https://openrouter.ai/api/v1"),
    _other("https://api.mistral.ai/v1"),
    _other("https://llm.corp.example/v1"),
    _other("http://8.8.8.8/v1"),
    _other("http://api.openai.com/v1"),
    _other("https://desk.openai.azure.com/openai/v1"),
]

SENT, ADDRESS = 'send("chat/completions", body)', 'os.environ["OPENAI_BASE_URL"]'


def _ending(path: str) -> Replace:
    return Replace(DESK, SENT, SENT.replace("chat/completions", path))


OTHER_PATHS = [
    red(name, step, says=rf"{SAYS}|GT5", ways=(TEST, PYTEST, PROXY) if proxied else (TEST, PYTEST))
    for name, step, proxied in (
        ("the path has a prefix", Replace(DESK, 'PREFIX = ""', 'PREFIX = "/tenant-a"'), True),
        ("the version of the path is another", Replace(DESK, BASE, f'{ADDRESS}[:-1] + "2"'), True),
        ("the path has another end", _ending("completions"), True),
        ("the path ends with a slash", _ending("chat/completions/"), True),
        ("the path is that of another API", _ending("responses"), True),
        ("the path only ends like that of a provider", _ending("channels/1/messages"), False),
        ("a parameter is in the query", Replace(DESK, "QUERY = {}", 'QUERY = {"api-version": "2"}'), True),
        ("two parameters of one name", Replace(DESK, "QUERY = {}", 'QUERY = [("a", "1"), ("a", "2")]'), True),
        ("a parameter in the query is empty", Replace(DESK, "QUERY = {}", 'QUERY = {"beta": ""}'), True),
    )
]


def _count_organization(checkout: Checkout) -> None:
    Configure({"match": {"headers": ["openai-organization"]}})(checkout)
    Command(("approve", "--policy", "--reason", "The account decides"))(checkout)
    _with_header("OpenAI-Organization", "org-2")(checkout)


POST, CLIENT = "httpx.post(", "httpx.Client(transport=httpx.HTTPTransport({})).post("
WAYS_OUT = [
    red("the Host header names another host", _with_header("Host", "elsewhere.example"), says="another upstream",
        ways=(TEST, PYTEST)),
    red("a proxy in the code gets the request", Replace(DESK, POST, CLIENT.format('proxy="http://llm.example:3128"')),
        says="another upstream", ways=(TEST, PYTEST)),
    red("a proxy in the code of requests gets the request", _at("http://llm.example.com/v1"),
        Replace(DESK, "import httpx\n", "import httpx\nimport requests\n"),
        Replace(DESK, "httpx.post(", 'requests.post(proxies={"http": "http://gateway.example:3128"}, url='),
        says=r"gateway\.example:3128/v1 as llm\.example\.com/v1", ways=(TEST,)),
    red("a provider's address leads to a Unix socket", _at("http://api.openai.com/v1"),
        Replace(DESK, POST, CLIENT.format('uds="/tmp/model.sock"')), says="another upstream", ways=(TEST,)),
    green("a server on this machine has a Unix socket", Replace(DESK, POST, CLIENT.format('uds="/tmp/model.sock"')),
          ways=(TEST, PYTEST)),
]  # fmt: skip

OTHER_HEADERS = [
    red(name, step, says=SAYS, ways=(TEST, way))
    for name, step, way in (
        ("a header is another", Replace(DESK, HEADERS, '"X-Tenant": "south"'), PYTEST),
        ("a header is gone", Replace(DESK, f", {HEADERS}", ""), PROXY),
        ("a header is empty", Replace(DESK, HEADERS, '"X-Tenant": ""'), PYTEST),
        ("a header is new", _with_header("X-Region", "eu"), PYTEST),
        ("a beta of the provider is asked for", _with_header("OpenAI-Beta", "assistants=v2"), PROXY),
        ("the version of the API is a header", _with_header("api-version", "2026-01-01"), PYTEST),
        ("another form of answer is accepted", _with_header("Accept", "text/event-stream"), PYTEST),
        ("JSON is refused", _with_header("Accept", "application/json;q=0"), PYTEST),
        ("every answer is refused", _with_header("Accept", "*/*;q=0"), PROXY),
        ("another version of JSON is accepted", _with_header("Accept", "application/json;version=2"), PYTEST),
        ("the body has two types", _with_header("Content-Type", "application/json;a=1, text/plain"), PYTEST),
        ("another language is accepted", _with_header("Accept-Language", "fr"), PYTEST),
        (
            "the body is said to be in UTF-16",
            _with_header("Content-Type", "application/json; charset=utf-16"),
            PYTEST,
        ),
        ("the body is said to be compressed", _with_header("Content-Encoding", "gzip"), PROXY),
        ("the body has another type", _with_header("Content-Type", "text/plain"), PYTEST),
        ("the cache of a gateway is bypassed", _with_header("Cache-Control", "no-cache"), PYTEST),
        ("a gateway routes by a header", _with_header("X-Portkey-Config", "pc-1"), PYTEST),
        ("a header begins like one that does not count", _with_header("X-Stainless", "1"), PYTEST),
        ("a header ends like one that does not count", _with_header("My-User-Agent", "1"), PYTEST),
        ("a header that does not count is declared to count", _count_organization, PYTEST),
    )
]

SAME_UPSTREAMS = [
    green(f"calls go to {address}", _at(address), ways=(TEST, PYTEST))
    for address in (
        "http://localhost:1/v1", "http://127.0.0.1:11434/v1", "http://127.8.9.1/v1", "http://[::1]:8080/v1",
        "http://10.0.0.5:8000/v1", "http://192.168.1.7/v1", "http://172.16.4.4:1/v1", "http://models:8000/v1",
        "http://LOCALHOST:2/v1", "https://localhost/v1", "http://user:password@localhost:3/v1",
    )
]  # fmt: skip

SAME_HEADERS = [
    _header(name, value)
    for name, value in (
        ("User-Agent", "OpenAI/Python 9.9.9"), ("X-Stainless-Lang", "js"), ("X-Stainless-Retry-Count", "3"),
        ("X-Stainless-Package-Version", "9.9.9"), ("X-Goog-Api-Client", "gl-python/3.14"),
        ("X-Fern-Language", "Python"), ("X-Client-Version", "7"), ("X-Server-Timeout", "60"),
        ("HTTP-Referer", "https://desk.example"), ("X-Title", "Desk"), ("traceparent", "00-1-2-01"),
        ("tracestate", "a=b"), ("baggage", "user=1"), ("sentry-trace", "1-2-1"), ("b3", "1-2"),
        ("X-B3-TraceId", "80f198ee56343ba8"), ("X-Datadog-Trace-Id", "12"), ("X-Amzn-Trace-Id", "Root=1"),
        ("X-Cloud-Trace-Context", "1/2"), ("newrelic", "e30="), ("X-Request-Id", "r-1"),
        ("X-Client-Request-Id", "r-2"), ("X-Correlation-Id", "c-1"), ("Idempotency-Key", "k-1"),
        ("OpenAI-Organization", "org-1"), ("OpenAI-Project", "proj-1"), ("ChatGPT-Account-Id", "a-1"),
        ("X-Goog-User-Project", "p-1"), ("Authorization", "Bearer another"), ("X-Api-Key", "another"),
        ("Api-Key", "another"), ("X-Goog-Api-Key", "another"), ("Cookie", "session=1"), ("Date", "today"),
        ("X-Amz-Date", "20260101T000000Z"), ("X-Amz-Security-Token", "t"), ("X-Amz-Content-Sha256", "0"),
        ("Amz-Sdk-Request", "attempt=2"), ("Amz-Sdk-Invocation-Id", "i"), ("Via", "1.1 proxy"),
        ("Forwarded", "for=10.0.0.1"), ("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-Proto", "https"),
        ("Proxy-Authorization", "Basic x"), ("TE", "trailers"), ("Keep-Alive", "timeout=5"),
        ("Connection", "close"), ("Accept-Encoding", "br"), ("Accept", "application/json"),
        ("Content-Type", "application/json; charset=utf-8"), ("Host", "localhost:99"),
    )
]  # fmt: skip

CASES = {
    "another upstream": OTHER_UPSTREAMS,
    "another path": OTHER_PATHS,
    "another way out": WAYS_OUT,
    "another header": OTHER_HEADERS,
    "the same upstream": SAME_UPSTREAMS,
    "a header that does not count": SAME_HEADERS,
}
