"""Calls of models by the store: addresses, API keys, time limits, and the traces of the calls.

In: a target of a release and what it is asked. Out: a call that has not begun. Never: an address or a key in a
release, a response or an error; a call that leaves no trace.

The address of a provider is what the caller gave (`--upstream NAME=URL`), else TRACEFORGE_UPSTREAM_OPENAI
(_ANTHROPIC, …), else its public address: a file of the project does not redirect it. Its key is in the environment
variable that its SDK reads. Every call becomes a redacted trace in the project's traces folder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from traceforge.canon import JSON, JSONObject
from traceforge.capture.engine import Engine
from traceforge.capture.inprocess import open_recorder
from traceforge.config import UPSTREAM_VARIABLE, LoadedConfig, current_folder, load_config
from traceforge.context.model.objects import Target
from traceforge.conversion import encode_json
from traceforge.errors import FailureKind, ProviderFailed, StoreRefused
from traceforge.exchange import Caller, Exchange, Headers
from traceforge.modelio.model_call import ModelCall, ModelResponse
from traceforge.modelio.provider_adapters import ADAPTERS, adapter_for

# The recorder is imported with the first call of a model: it takes 60 ms, a tenth of the start of every `traceforge
# context` command, and most of them call no model.
if TYPE_CHECKING:
    from traceforge.capture.hook.in_flight_call import InFlightCall
    from traceforge.capture.recorder import Recorder

TIMEOUT_S = 600.0  # For the whole call: a reasoning model may need minutes.
AGENT = "traceforge-context"
_CLOSE_S = 5.0
_CUT_DOWN = ("length", "content_filter")


class ModelClients:
    """Asks models for all stores of one process. Safe to use from many threads."""

    def __init__(
        self,
        upstreams: Mapping[str, str] | None = None,
        *,
        recorder: Recorder | None = None,
        timeout_s: float = TIMEOUT_S,
        traces_dir: str | None = None,
    ) -> None:
        self._upstreams = dict(upstreams or {})
        self._traces_dir = traces_dir  # None: that of the project.
        self._caller_recorder = recorder  # The caller's, who closes it.
        self._recorder: Recorder | None = None
        self._engine: Engine | None = None
        self._loaded: LoadedConfig | None = None
        self._lock = threading.RLock()
        self._running: dict[str, Callable[[], object]] = {}
        self.timeout_s = timeout_s

    @property
    def configured_upstreams(self) -> Mapping[str, str]:
        """The addresses that the caller gave."""
        return dict(self._upstreams)

    def find_upstream(self, provider: str) -> str:
        """The address of a provider; "" for its public one."""
        return self._upstreams.get(provider) or os.environ.get(UPSTREAM_VARIABLE + provider.upper(), "")

    def start_call(
        self,
        target: Target,
        messages: Sequence[JSONObject],
        parameters: Mapping[str, JSON],
        *,
        session_id: str = "",
        stream: bool = False,
        timeout_s: float | None = None,
    ) -> ModelCall:
        """A call that has not begun; the trace it becomes belongs to `session_id`.

        `timeout_s` is its time limit, if not that of all calls.

        Raises:
            StoreRefused: the provider is not configured as it must be.
        """
        try:
            adapter = adapter_for(target.provider, target.model, url=self.find_upstream(target.provider), agent=AGENT)
        except ValueError as exc:
            variables = f"{UPSTREAM_VARIABLE}{target.provider.upper()} and {ADAPTERS[target.provider].key_variable}"
            raise StoreRefused(
                f"{target.provider} cannot be asked: {exc}",
                reason="provider_misconfigured",
                status=422,
                hint=f"Look at {variables}.",
            ) from None
        if stream and target.provider == "openai":
            parameters = {"stream_options": {"include_usage": True}, **parameters}  # Else a stream counts no tokens.
        engine = self._open_engine()

        def begin(method: str, url: str, headers: Headers) -> InFlightCall:
            return engine.begin(method, url, headers, Caller(session_id=session_id), has_traceforge_headers=False)

        return adapter.prepare_call(
            messages, parameters, stream=stream, timeout_s=timeout_s or self.timeout_s, begin=begin
        )

    @contextmanager
    def running(self, name: str, cancel: Callable[[], object]) -> Iterator[None]:
        """While the block runs, `cancel(name)` in this process ends it at once."""
        with self._lock:
            self._running[name] = cancel
        try:
            yield
        finally:
            with self._lock:
                del self._running[name]

    def cancel(self, name: str) -> None:
        """End what runs under this name, where it runs here; another process learns of it from the database."""
        with self._lock:
            cancel = self._running.get(name)
        if cancel is not None:
            cancel()

    @property
    def traces_dir(self) -> str:
        """Where the traces of the calls are, for a purge to remove them."""
        loaded = self._load_config()
        return os.path.join(loaded.project, loaded.config.traces_dir)

    def take(self, exchange: Exchange) -> None:
        """A call has ended: for the engine alone."""
        with self._lock:
            if self._caller_recorder is None and self._recorder is None:
                self._recorder = open_recorder(self._load_config())
            recorder = self._caller_recorder or self._recorder
        assert recorder is not None
        recorder.take(exchange)

    def drain_traces(self) -> None:
        """Make files of what was recorded so far; calls in flight are recorded after it."""
        with self._lock:
            recorder, self._recorder = self._recorder, None
            if recorder is not None:
                recorder.close(_CLOSE_S)

    def close(self) -> None:
        """Bring what was recorded to where it stays."""
        self.drain_traces()

    def _load_config(self) -> LoadedConfig:
        if self._loaded is None:
            loaded = load_config(current_folder())
            if self._traces_dir is not None:
                elsewhere = replace(loaded.config, traces_dir=os.path.abspath(self._traces_dir))
                loaded = loaded._replace(config=elsewhere)
            self._loaded = loaded
        return self._loaded

    def _open_engine(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self)
            return self._engine


def is_storable_text(text: str) -> bool:
    """Whether the text is valid Unicode: JSON can hold half of a surrogate pair, which a response cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_response(response: ModelResponse) -> ModelResponse:
    """An answer that can be kept, and said again.

    One that a limit or a filter cut down to nothing is an answer, and says so in why it ended.

    Raises:
        ProviderFailed: it says nothing at all, holds half of a character, or a NUL in why it ended.
    """
    if not _has_content(response.message) and response.finish_reason not in _CUT_DOWN:
        why = "its answer is empty: no text, no call of a tool, no refusal"
        message = f"the model gave no answer: {why}"
        raise ProviderFailed(message, kind=FailureKind.EMPTY, reason=why, status=response.status)
    reason = response.finish_reason or ""
    try:
        encode_json((response.message, reason))
    except UnicodeEncodeError:
        raise _unreadable(response) from None
    if "\0" in reason:
        raise _unreadable(response)
    return response


def _has_content(message: JSONObject) -> bool:
    """A text, also an empty one, or anything beside it; of a provider's own parts, at least one."""
    parts = message.get("parts")
    own = parts.get("parts") if isinstance(parts, dict) else parts
    other_values = (message[name] for name in message.keys() - {"role", "parts"})
    return bool(own) or any(value not in (None, [], {}) for value in other_values)


def _unreadable(response: ModelResponse) -> ProviderFailed:
    why = "its answer cannot be read: it is not valid Unicode"
    message = f"the model gave no answer: {why}"
    return ProviderFailed(message, kind=FailureKind.UNREADABLE, reason=why, status=response.status)
