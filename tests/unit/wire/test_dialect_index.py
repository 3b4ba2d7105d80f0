"""What is known of dialects before they are imported, and that the others stay out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.dialect_files import dialect_calls
from support.wire_transcripts import CHAT, GEMINI, MESSAGES, OLLAMA_CHAT, RESPONSES
from traceforge.capture.hook.model_call_rules import PATH, WatchedHosts, is_model_call
from traceforge.capture.watched_hosts import list_plugin_entries
from traceforge.wire import dialect_index
from traceforge.wire.dialect_declaration import AFTER_VERSION, DialectDeclaration, EndpointKind, EndpointPath
from traceforge.wire.dialect_plugins import DialectPlugin, LoadedPlugins, load_plugins
from traceforge.wire.dialects import find_declaration, find_dialect_module, list_dialects
from traceforge.wire.endpoints import Endpoint

USE = """
import sys
from traceforge.traces.trace_composer import TraceComposer
from traceforge.redact.redactor import Redactor
from traceforge.exchange import Chunk, Exchange
TraceComposer(Redactor()).compose(Exchange(
    "00000000-0000-0000-0000-000000000000", "2026-11-15T12:00:00.000Z", "POST", "http://127.0.0.1" + sys.argv[1],
    (("content-type", "application/json"),), b'{"model": "m"}', 200, (("content-type", "application/json"),),
    (Chunk(0.0, b'{"model": "m"}'),), 1.0,
))
print(" ".join(sorted(name for name in sys.modules if name.startswith("traceforge.wire."))))
"""
OWN_MODULES = {
    CHAT: {"traceforge.wire.openai.chat"},
    RESPONSES: {"traceforge.wire.openai.chat", "traceforge.wire.openai.responses"},
    MESSAGES: {"traceforge.wire.anthropic"},
    GEMINI: {"traceforge.wire.gemini"},
    OLLAMA_CHAT: {"traceforge.wire.ollama"},
    "/v1/fim/completions": {"traceforge.wire.mistral", "traceforge.wire.openai.chat"},
    "/generate_stream": {"traceforge.wire.tgi"},
    "/completion": {"traceforge.wire.llama_cpp"},
    "/v1/rerank": {"traceforge.wire.vllm", "traceforge.wire.openai.chat"},
    "/v1/unknown": set(),
}
CODECS = {*dialect_index.MODULES.values(), "traceforge.wire.openai.responses"}


@pytest.mark.parametrize("address", OWN_MODULES)
def test_a_dialect_that_is_not_used_is_not_imported(address: str) -> None:
    """A call is recorded and read with the module of its own dialect alone."""
    command = [sys.executable, "-c", USE, address]
    imported = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

    assert OWN_MODULES[address] == imported & CODECS


USE_EACH = """
import json, os, sys
from importlib import import_module
from traceforge.traces.trace_composer import TraceComposer
from traceforge.redact.redactor import Redactor
from traceforge.exchange import Chunk, Exchange
from traceforge.wire.dialect_index import MODULES
def read(url):
    TraceComposer(Redactor()).compose(Exchange(
        "00000000-0000-0000-0000-000000000000", "2026-11-15T12:00:00.000Z", "POST", url,
        (("content-type", "application/json"),), b'{"model": "m"}', 200, (("content-type", "application/json"),),
        (Chunk(0.0, b'{"model": "m"}'),), 1.0,
    ))
for name, url in json.loads(sys.argv[1]):
    for what in (read, import_module):
        if os.fork() == 0:
            what(url if what is read else MODULES[name])
            print(name, *sorted(set(MODULES.values()) & set(sys.modules)), flush=True)
            os._exit(0)
        os.wait()
"""


def test_a_call_imports_no_other_dialect_than_that_of_its_provider() -> None:
    """The documented calls of every dialect: only what its own module imports, such as that of OpenAI."""
    calls = {(call.dialect, call.endpoint.kind): (call.dialect, call.url) for call in dialect_calls()}
    command = [sys.executable, "-c", USE_EACH, json.dumps(list(calls.values()))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert 2 * len(calls) == len(lines)
    for used, needed in zip(lines[::2], lines[1::2], strict=True):
        assert dialect_index.MODULES[used.split()[0]] in used.split()
        assert set(used.split()) <= set(needed.split())


@pytest.mark.parametrize("name", dialect_index.MODULES)
def test_a_module_declares_everything_of_its_dialect(name: str) -> None:
    """Its name is that of the table, and each of its endpoints has something that reads and writes its bodies."""
    declaration = find_declaration(name)

    assert name == declaration.name
    assert name in list_dialects()
    for path in declaration.endpoints:
        module = find_dialect_module(Endpoint(name, path.kind))
        assert module is not None
        assert all(
            callable(getattr(module, function))
            for function in ("decode_request", "decode_response", "encode_response", "encode_stream", "new_assembler")
        )


def test_the_hook_gets_the_paths_of_a_plugin_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that has neither the package nor TraceForge; a path that counts at a host alone is left out."""
    endpoints = (
        EndpointPath(r"/models/(?P<model>[^/]+)/ask/?", EndpointKind.CHAT, AFTER_VERSION),
        EndpointPath(r"/talk", EndpointKind.CHAT, AFTER_VERSION, only_at_hosts=True),
    )
    declaration = DialectDeclaration("acme", endpoints, ("api.acme.example",), (".acme.example",))
    plugins = LoadedPlugins({"acme": DialectPlugin(declaration, "acme_dialect")}, ())
    monkeypatch.setattr("traceforge.capture.watched_hosts.load_plugins", lambda: plugins)

    entries = list_plugin_entries()

    hosts = WatchedHosts(entries)
    assert 1 == sum(entry.startswith(PATH) for entry in entries)
    assert is_model_call("POST", "https://any.example/v2/models/m/ask", hosts)
    assert is_model_call("GET", "https://eu.acme.example/usage", hosts)
    assert is_model_call("POST", "https://api.acme.example/v2/talk", hosts)
    assert not is_model_call("GET", "https://any.example/v2/models/m/ask", hosts)
    assert not is_model_call("POST", "https://any.example/v2/talk", hosts)
    assert not is_model_call("POST", "https://any.example/v2/models/m/ask")


GUARDED = """
from traceforge.snapshots.gate.import_guard import refuse_imports
from traceforge.wire.dialect_index import RULES
from traceforge.wire.dialects import find_declaration, find_dialect_module, find_framing_of
from traceforge.wire.endpoints import Endpoint, EndpointKind
finder = refuse_imports()
for _, dialect, kind, *_ in RULES:
    endpoint = Endpoint(dialect, EndpointKind(kind))
    module = find_dialect_module(endpoint)
    module.decode_request({}, "")
    module.decode_response({})
    module.new_assembler().finish()
    find_framing_of(endpoint)
print(len(RULES), sorted(finder.refused))
"""


def test_every_dialect_is_there_once_the_gate_imports_nothing_any_more() -> None:
    """The command that is judged could have changed a module that is imported later."""
    completed = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)

    assert f"{len(dialect_index.RULES)} []\n" == completed.stdout, completed.stderr


def test_this_environment_has_no_plugins() -> None:
    """So the tests see what TraceForge brings itself."""
    assert LoadedPlugins({}, ()) == load_plugins()
    assert [] == list_plugin_entries()
