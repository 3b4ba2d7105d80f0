"""The same and other requests of real SDKs."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

from support.gate_case import PROXY, PYTEST, TEST, Case, Replace, green, red

OPENAI, ANTHROPIC, GEMINI, OLLAMA = "openai_tests.py", "anthropic_tests.py", "gemini_tests.py", "ollama_tests.py"
SAYS = r"GT[12]\b|no recorded call matches"
RETRY, CHAT = "CLIENT = openai.OpenAI(max_retries=1)", "CLIENT.chat.completions.create(messages=MESSAGES, **MODEL)"
CLAUDE, MESSAGE = "CLIENT = anthropic.Anthropic(max_retries=1)", 'metadata={"user_id": "u-1"}'


def _client(options: str) -> str:
    return f"CLIENT = openai.OpenAI({options})"


Row = tuple[str, str, str, str]
CHANGED: list[Row] = [
    ("openai: the prompt is another", OPENAI, "Name a tree.", "Name a bush."),
    ("openai: a parameter is new", OPENAI, '"max_tokens": 60}', '"max_tokens": 60, "top_p": 0.5}'),
    ("openai: a query is new", OPENAI, RETRY, _client('default_query={"api-version": "1"}')),
    ("openai: a stream is a plain answer", OPENAI, "with CLIENT.chat.completions.create(messages=MESSAGES, stream=True, stream_options=usage, **MODEL) as stream:\n        assert len(list(stream)) > 1",
     "assert CLIENT.chat.completions.create(messages=MESSAGES, n=2, **MODEL)"),
    ("openai: the input of a response is another", OPENAI, "Name a flower.", "Name a rose."),
    ("openai: the instructions of a response are new", OPENAI, 'input="Name a flower."', 'input="Name a flower.", instructions="Be brief."'),
    ("openai: the embedded text is another", OPENAI, 'input="a tree"', 'input="a bush"'),
    ("openai: the embedding has another size", OPENAI, 'input="a tree"', 'input="a tree", dimensions=8'),
    ("anthropic: the prompt is another", ANTHROPIC, "Name a bird.", "Name an owl."),
    ("anthropic: the system prompt is another", ANTHROPIC, "You are brief.", "You are long."),
    ("anthropic: the model is another", ANTHROPIC, "claude-sonnet-5", "claude-opus-5"),
    ("anthropic: a beta is new", ANTHROPIC, '"a-1,b-2"', '"a-1,b-2,c-3"'),
    ("anthropic: a beta is gone", ANTHROPIC, '"a-1,b-2"', '"a-1"'),
    ("anthropic: the version of the API is another", ANTHROPIC, CLAUDE, 'CLIENT = anthropic.Anthropic(default_headers={"anthropic-version": "2099-01-01"})'),
    ("anthropic: thinking is on", ANTHROPIC, '"max_tokens": 60,', '"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024},'),
    ("anthropic: the system prompt is cached", ANTHROPIC, '"system": "You are brief."',
     '"system": [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]'),
    ("gemini: the prompt is another", GEMINI, "Name a fish.", "Name a shark."),
    ("gemini: the system instruction is another", GEMINI, "You are brief.", "You are long."),
    ("gemini: the model is another", GEMINI, 'model="gemini-2.5-flash", contents="Name', 'model="gemini-2.5-pro", contents="Name'),
    ("gemini: a setting is new", GEMINI, "temperature=0,", "temperature=0, top_k=3,"),
    ("gemini: a safety setting is new", GEMINI, "temperature=0,",
     'temperature=0, safety_settings=[{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}],'),
    ("gemini: the version of the API is another", GEMINI, "HttpOptions(base_url", 'HttpOptions(api_version="v1beta", base_url'),
    ("ollama: the prompt is another", OLLAMA, "Name a stone.", "Name a gem."),
    ("ollama: an option is another", OLLAMA, '"num_predict": 60', '"num_predict": 61'),
    ("ollama: the model is kept", OLLAMA, "options=OPTIONS)", "options=OPTIONS, keep_alive=5)"),
    ("ollama: the model thinks", OLLAMA, "options=OPTIONS)", "options=OPTIONS, think=True)"),
]  # fmt: skip

CHANGES = [
    red(name, Replace(file, before, after), tests=file, says=SAYS, ways=(TEST, PROXY) if number % 3 else (TEST, PYTEST))
    for number, (name, file, before, after) in enumerate(CHANGED)
]  # fmt: skip
CHANGES.append(
    red("openai: a header is new", Replace(OPENAI, RETRY, _client('default_headers={"X-Feature": "1"}')), tests=OPENAI, says=SAYS,
        ways=(TEST, PYTEST))
)  # fmt: skip

ASYNC_CHAT = "__import__('asyncio').run(openai.AsyncOpenAI().chat.completions.create(messages=MESSAGES, **MODEL))"
ASYNC_MESSAGE = (
    f"__import__('asyncio').run(anthropic.AsyncAnthropic().messages.create(messages=MESSAGES, {MESSAGE}, **MODEL))"
)
TEXT = 'CLIENT.models.generate_content(model="gemini-2.5-flash", contents="Name a fish.", config=SETTINGS)'
LOCAL = 'CLIENT.chat(model="llama3.2", messages=MESSAGES, options=OPTIONS)'
SAME: list[Row] = [
    ("openai: no retries", OPENAI, RETRY, _client("max_retries=0")),
    ("openai: many retries", OPENAI, RETRY, _client("max_retries=9")),
    ("openai: another timeout", OPENAI, RETRY, _client("timeout=3")),
    ("openai: another organization", OPENAI, RETRY, _client('organization="org-1", project="proj-1"')),
    ("openai: another key", OPENAI, RETRY, _client('api_key="sk-2"')),
    ("openai: another version of the SDK", OPENAI, RETRY, f'import openai._version\n\nopenai._version.__version__ = openai._base_client.__version__ = "0.9.9"\n{RETRY}'),
    ("openai: another version of Python", OPENAI, RETRY, f'import openai._base_client\n\nopenai._base_client.get_python_version = lambda: "3.99"\n{RETRY}'),
    ("openai: another system", OPENAI, RETRY, f'import openai._base_client\n\nopenai._base_client.get_platform = lambda: "Windows"\nopenai._base_client.get_architecture = lambda: "arm64"\n{RETRY}'),
    ("openai: another user agent", OPENAI, RETRY, _client('default_headers={"User-Agent": "desk/2"}')),
    ("openai: its own HTTP client", OPENAI, RETRY, _client("http_client=__import__('httpx').Client()")),
    ("openai: an HTTP client with limits", OPENAI, RETRY, _client("http_client=openai.DefaultHttpxClient(limits=__import__('httpx').Limits(max_connections=1))")),
    ("openai: a client for each call", OPENAI, CHAT, CHAT.replace("CLIENT", "openai.OpenAI()")),
    ("openai: asynchronous", OPENAI, CHAT, ASYNC_CHAT),
    ("openai: with options", OPENAI, CHAT, CHAT.replace("CLIENT", "CLIENT.with_options(timeout=9)")),
    ("openai: the raw answer", OPENAI, CHAT, CHAT.replace("completions.create", "completions.with_raw_response.create") + ".parse()"),
    ("openai: a header of tracing", OPENAI, RETRY, _client('default_headers={"traceparent": "00-1-2-01"}')),
    ("openai: a key for the cache", OPENAI, CHAT, CHAT.replace("**MODEL", 'prompt_cache_key="a", **MODEL')),
    ("openai: a user", OPENAI, CHAT, CHAT.replace("**MODEL", 'user="a", **MODEL')),
    ("openai: an idempotency key", OPENAI, CHAT, CHAT.replace("**MODEL", 'extra_headers={"Idempotency-Key": "x"}, **MODEL')),
    ("anthropic: another user", ANTHROPIC, '"u-1"', '"u-2"'),
    ("anthropic: no user", ANTHROPIC, f"{MESSAGE}, ", ""),
    ("anthropic: betas in another order", ANTHROPIC, '"a-1,b-2"', '"b-2, a-1"'),
    ("anthropic: a beta stands twice", ANTHROPIC, '"a-1,b-2"', '"a-1,b-2,a-1"'),
    ("anthropic: asynchronous", ANTHROPIC, f"CLIENT.messages.create(messages=MESSAGES, {MESSAGE}, **MODEL)", ASYNC_MESSAGE),
    ("anthropic: another version of the SDK", ANTHROPIC, CLAUDE, f'import anthropic._base_client\n\nanthropic._base_client.__version__ = "0.9.9"\n{CLAUDE}'),
    ("anthropic: another key", ANTHROPIC, CLAUDE, 'CLIENT = anthropic.Anthropic(api_key="sk-2")'),
    ("anthropic: a token instead of a key", ANTHROPIC, CLAUDE, 'CLIENT = anthropic.Anthropic(auth_token="t", api_key=None)'),
    ("gemini: asynchronous", GEMINI, TEXT, f"__import__('asyncio').run({TEXT.replace('CLIENT.models', 'CLIENT.aio.models')})"),
    ("gemini: another key", GEMINI, 'api_key="none"', 'api_key="another"'),
    ("gemini: another timeout", GEMINI, "HttpOptions(base_url", "HttpOptions(timeout=9000, base_url"),
    ("gemini: another user agent", GEMINI, "HttpOptions(base_url", 'HttpOptions(headers={"x-goog-api-client": "a/1", "user-agent": "a/1"}, base_url'),
    ("ollama: asynchronous", OLLAMA, LOCAL, f"__import__('asyncio').run({LOCAL.replace('CLIENT', 'ollama.AsyncClient()')})"),
    ("ollama: the function of the module", OLLAMA, LOCAL, LOCAL.replace("CLIENT", "ollama")),
    ("ollama: another timeout", OLLAMA, "ollama.Client()", "ollama.Client(timeout=9)"),
]  # fmt: skip
UNCHANGED: list[Case] = [
    green(name, Replace(file, before, after), tests=file, ways=(TEST, PROXY) if number % 4 == 0 else (TEST,))
    for number, (name, file, before, after) in enumerate(SAME)
]  # fmt: skip

CASES = {"a request of an SDK": CHANGES, "an SDK used differently": UNCHANGED}
