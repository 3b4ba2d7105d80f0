"""What the module of a dialect declares.

    DIALECT = DialectDeclaration(
        name="acme",
        endpoints=(EndpointPath(r"/generate/?", EndpointKind.CHAT, after=AFTER_VERSION),),
        hosts=("api.acme.example",),
        api_key=KeyHeader(("ACME_API_KEY",), "authorization", "Bearer "),
    )

The same module has the functions of `DialectModule`, or names a `BodyCodec` for each endpoint. What must be known
before any dialect is imported is in two tables that `make docs` writes: `wire/dialect_index.py`, and
`capture/hook/dialect_paths.py` for the hook, which uses the standard library alone. A package outside names its
module as an entry point instead.

In: nothing. Out: types. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame

ENTRY_POINT_GROUP = "traceforge.dialects"


class EndpointKind(StrEnum):
    """The purpose of an endpoint, such as a chat or an embedding."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    FILL_IN = "fill-in"
    OCR = "ocr"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"
    SCORE = "score"
    CLASSIFICATION = "classification"
    OTHER = "other"


# What an endpoint may follow in a path. A name such as `responses` alone says little: it must follow nothing, a
# version, a word that providers and gateways use, or a single part, which is the base of a gateway. So a path that
# merely ends like a provider's (`/surveys/1/responses`, `/channels/1/messages`) is not taken for one.
AFTER_ANYTHING = ""
AFTER_VERSION = r"/v[0-9]+[a-z0-9]*"
_API_WORDS = r"/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm)"
AFTER_BASE = rf"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|{AFTER_VERSION}|{_API_WORDS})"


class EndpointPath(Struct, frozen=True):
    """Where a dialect has an endpoint. Requests are POSTs."""

    path: str  # A regular expression for the end of a path, perhaps with a group `model`.
    kind: EndpointKind
    after: str = AFTER_BASE  # What comes before; a regular expression.
    codec: str = ""  # What reads and writes its bodies: `module`, or `:name` in the declaring module, or that itself.
    rank: int = 9  # Lower ones are tried first: common ones, and those that another pattern would fit, too.
    only_at_hosts: bool = False  # The path says too little: it counts at the dialect's hosts alone.
    only_where_watched: bool = (
        False  # The path says too little for the hook: it counts at hosts that a project
        # names, and does not make a call a watched one.
    )

    @property
    def is_watched(self) -> bool:
        """Whether a POST to this path is recorded at any host."""
        return not (self.only_at_hosts or self.only_where_watched)


class KeyHeader(NamedTuple):
    """How an API key is sent."""

    variables: tuple[str, ...]  # The first that is set counts.
    header: str
    prefix: str = ""


class BodyFraming(StrEnum):
    """How a body is divided."""

    WHOLE = "whole"
    SSE = "sse"
    LINES = "lines"
    ARRAY = "array"
    FRAMES = "frames"  # binary ones, of Bedrock


class DialectDeclaration(Struct, frozen=True):
    """What is known about a dialect before one of its bodies is read."""

    name: str  # The `provider` of its traces: small letters, digits and `-`.
    endpoints: tuple[EndpointPath, ...]
    hosts: tuple[str, ...] = ()  # Official hosts: every call to them is recorded, whatever its path.
    host_endings: tuple[str, ...] = ()  # The same for hosts that end like this.
    host_patterns: tuple[str, ...] = ()  # The same for hosts that match; `*` stands for any text.
    not_paths: tuple[str, ...] = ()  # Paths that look like an endpoint of some dialect and are something else.
    api_key: KeyHeader | None = None
    framing: BodyFraming = BodyFraming.SSE  # How its streams are divided.
    base_path: str = ""  # What of a path follows the base URL of its SDKs; a regular expression.


class DialectModule(Protocol):
    """What a dialect's module offers, or a `BodyCodec` in it."""

    @property
    def new_assembler(self) -> Callable[[], StreamAssembler]:
        """What puts a stream of this dialect together."""
        ...

    @property
    def decode_request(self) -> Callable[[JSONObject, str], JSONObject]:
        """From a body to the unified request; the text is the model, where the address names it."""
        ...

    @property
    def decode_response(self) -> Callable[[JSONObject], JSONObject]:
        """From a body to the unified response."""
        ...

    @property
    def encode_response(self) -> Callable[[JSONObject], JSONObject]:
        """The answer that decodes to this unified response."""
        ...

    @property
    def encode_stream(self) -> Callable[[JSONObject], list[StreamFrame]]:
        """The stream that assembles and decodes to this unified response."""
        ...


class BodyCodec(Struct, frozen=True):
    """The functions of a `DialectModule`, for an endpoint whose bodies are other ones.

    A server may answer with a list in place of an object: `decode_list` makes an object of it.
    """

    decode_request: Callable[[JSONObject, str], JSONObject]
    decode_response: Callable[[JSONObject], JSONObject]
    encode_response: Callable[[JSONObject], JSONObject]
    encode_stream: Callable[[JSONObject], list[StreamFrame]]
    new_assembler: Callable[[], StreamAssembler]
    decode_list: Callable[[list[JSON]], JSONObject] | None = None
