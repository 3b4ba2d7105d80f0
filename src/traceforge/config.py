"""The configuration: what a project declares once, and where each value came from.

In: `traceforge.config.json` (comments allowed) or `[tool.traceforge]` in pyproject.toml, then the environment.
Out: one frozen `Config`. Never: guesses a misspelt key, merges two files, or reads above the project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, ClassVar, Literal, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.addresses import PORT_MAX, port_range, upstream_problem
from traceforge.build_environment import build_environment
from traceforge.canon import JSON, JSONObject, find_conflict_marker, find_repeated_name, json_path, parse_json
from traceforge.conversion import convert
from traceforge.errors import CONFLICT_HINT, CONFLICT_MARKERS, CannotRead, InvalidConfig, NotJSON
from traceforge.files import STATE_DIR, check_not_planted, list_folder, read_file
from traceforge.findings import PARSE, Finding, nearest_name
from traceforge.project_links import find_link_out, list_state_paths, list_traces_folders, list_traces_paths
from traceforge.project_trust import has_trusted_owner, require_trust
from traceforge.shape import NonEmptyText, find_problems
from traceforge.wildcards import find_wildcards

CONFIG_FILE = "traceforge.config.json"
PYPROJECT_FILE = "pyproject.toml"
SNAPSHOTS_DIR = ".ai-snapshots"
CHECKS_DIR = ".ai-checks"
MATCH_KEY_FILE = f"{STATE_DIR}/match.key"
MATCH_KEY_VARIABLE = "TRACEFORGE_MATCH_KEY"
UPSTREAM_VARIABLE = "TRACEFORGE_UPSTREAM_"  # and the name of an upstream: where this user wants it to be
CONFIG_BYTES_MAX = 1 << 20
CONFIG_RULE = "CF1"
CLOSED_PORTS_MIN = 1000  # Whoever opens more than the others opens all; those below 1024 may stay closed.

ENVIRONMENT_VARIABLES = {"TRACEFORGE_TRACES_DIR": "traces_dir"}

# Providers that need no declaration. A file of the project cannot redirect them: the user's API keys would follow.
DEFAULT_UPSTREAMS: Mapping[str, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
_PORTS_HINT = 'Write a port as 5432, and a range as "32768-60999".'
_UPSTREAM_HINT = 'Write it as "corp": "https://llm.example.com".'
_REDIRECT_HINT = (
    "Name the address yourself: with --upstream {0}=URL, or in TRACEFORGE_UPSTREAM_{1}. A gateway of your own gets a "
    'name of its own: "corp": {{"url": "…", "same_as": "{0}"}}.'
)
_TRACES_HINT = "Name a folder in the project, or set TRACEFORGE_TRACES_DIR."
_LINK_HINT = "Replace the link with a folder. Traces may be elsewhere: set TRACEFORGE_TRACES_DIR."
_EXCLUDED_HOST_HINT = 'Remove the entry. With record_http "all", test.ignore_hosts leaves hosts out.'
_WILDCARD_HINT = "Name what is meant: an entry needs more than wildcards."
_MODELS_HINT = "Name the models, such as claude-*."
_EMPTY_HINT = "Write {} into it, or remove it and run: traceforge init"

# Possessive and open-ended, so that no text makes it look at a place twice.
_COMMENT = r'(?s)"(?:[^"\\\n]++|\\.)*+"?|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?'


class VolatileParts(Struct, forbid_unknown_fields=True, frozen=True):
    """Parts of requests that are not compared, for the models or tests that a pattern names."""

    ignore_paths: list[NonEmptyText] = msgspec.field(default_factory=list)
    ignore_patterns: list[NonEmptyText] = msgspec.field(default_factory=list)


class ModelRule(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings for the models that one pattern names."""

    gate: Literal["behaviour", "request"] | UnsetType = UNSET
    temperature: Annotated[float, Meta(ge=0, le=2)] | UnsetType = UNSET
    max_tokens: Annotated[float, Meta(ge=-1, multiple_of=1)] | UnsetType = UNSET
    usage_in_answers: Literal["required", "absent"] = "required"
    input_price_per_million: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    output_price_per_million: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    calls: Literal["exact", "may_repeat", "may_vary"] = "exact"
    match: VolatileParts = VolatileParts()


class CallSiteRule(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings for finding the call site."""

    skip: list[NonEmptyText] = msgspec.field(default_factory=list)


class UpstreamRule(Struct, forbid_unknown_fields=True, frozen=True):
    """An upstream with its address, and the logical upstream that it is equal to."""

    url: NonEmptyText
    same_as: str = ""


class MatchRule(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings for when two requests count as the same."""

    ignore_paths: list[NonEmptyText] = msgspec.field(default_factory=list)
    ignore_patterns: list[NonEmptyText] = msgspec.field(default_factory=list)
    redacted: Literal["require", "forks", "count"] = "require"
    headers: list[NonEmptyText] = msgspec.field(default_factory=list)
    ignore_headers: list[NonEmptyText] = msgspec.field(default_factory=list)


class TestRule(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings for what a run of the tests may do, and what it may leave out."""

    __test__: ClassVar[bool] = False  # for pytest, which takes the name for one of its own

    seal_network: Literal["auto", "require", "off"] = "auto"
    allow_ports: list[float | NonEmptyText] = msgspec.field(default_factory=list)
    allow_programs: list[NonEmptyText] = msgspec.field(default_factory=list)
    ignore_hosts: list[NonEmptyText] = msgspec.field(default_factory=list)
    may_skip: list[NonEmptyText] = msgspec.field(default_factory=list)
    may_repeat: list[NonEmptyText] = msgspec.field(default_factory=list)
    may_vary: list[NonEmptyText] = msgspec.field(default_factory=list)
    cassette_tests: list[NonEmptyText] = msgspec.field(default_factory=list)
    match: dict[str, VolatileParts] = msgspec.field(default_factory=dict)


class ApprovalRule(Struct, forbid_unknown_fields=True, frozen=True):
    """Settings for what an approval needs."""

    require_signed: bool = False


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """Every setting. docs/reference/config.md has one heading per field."""

    traces_dir: NonEmptyText = ".ai-tests/traces"
    max_trace_retention: Annotated[float, Meta(ge=0, multiple_of=1)] = 30
    durability: Literal["group", "sync"] = "group"
    redact_fields: list[NonEmptyText] = msgspec.field(default_factory=list)
    redact_patterns: list[NonEmptyText] = msgspec.field(default_factory=list)
    allow: list[NonEmptyText] = msgspec.field(default_factory=list)
    determinism: Literal["auto", "strict"] = "auto"
    models: dict[str, ModelRule] = msgspec.field(default_factory=dict)
    upstreams: dict[str, str | UpstreamRule] = msgspec.field(default_factory=dict)
    hosts: list[NonEmptyText] = msgspec.field(default_factory=list)
    record_http: Literal["models", "all"] = "models"
    callsite: CallSiteRule = CallSiteRule()
    match: MatchRule = MatchRule()
    test: TestRule = TestRule()
    approvals: ApprovalRule = ApprovalRule()

    @property
    def upstream_rules(self) -> dict[str, UpstreamRule]:
        """The upstreams, each as a rule."""
        return {
            name: UpstreamRule(upstream) if isinstance(upstream, str) else upstream
            for name, upstream in self.upstreams.items()
        }

    @property
    def upstream_urls(self) -> dict[str, str]:
        """The addresses of the upstreams."""
        return {name: rule.url for name, rule in self.upstream_rules.items()}


class LoadedConfig(NamedTuple):
    """A configuration, the project it belongs to, the file it is from, and where each value came from."""

    project: str
    config: Config
    origins: Mapping[str, str]
    file: str = ""  # empty where nothing configures the project; a file that sets nothing is named too


def load_config(start: str, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """Find the project around `start` and read its configuration.

    Raises:
        InvalidConfig: a key or a value is wrong, two files both configure TraceForge, or a link leads out of the
            project where state or traces are written.
        CannotRead: the file is there and cannot be read.
        CannotWrite: another user has put the folder that a variable names for traces into one for everybody.
        UntrustedProject: it belongs to another user, as may the state or the folder of traces.
    """
    project = find_project(start)
    paths = _list_settings_files(project)
    owners = require_trust(project, paths)
    values, file = _read_project(project, paths, owners)
    _refuse_links_out(project, list_state_paths(project))
    origins = dict.fromkeys(values, file)
    for variable, key in ENVIRONMENT_VARIABLES.items():
        value = (build_environment() if environ is None else environ).get(variable)
        if value:
            values[key] = value
            origins[key] = f"environment variable {variable}"
    config = convert(values, Config)
    traces_folders = [os.path.join(project, folder) for folder in list_traces_folders(config.traces_dir)]
    if origins.get("traces_dir", file) == file:
        require_trust(project, traces_folders)
        _refuse_links_out(project, list_traces_paths(project, config.traces_dir))
    else:  # The user has chosen the folder, and it may be another user's who lends it.
        for folder in traces_folders:
            check_not_planted(folder)
    return LoadedConfig(
        project, config, {name: origins.get(name, "default") for name in config.__struct_fields__}, file
    )


def current_folder() -> str:
    """The current folder.

    Raises:
        CannotRead: that folder is gone.
    """
    try:
        return os.getcwd()
    except OSError:
        raise CannotRead(".", "the current folder does not exist any more", hint="cd to one that does.") from None


def find_project(start: str) -> str:
    """The nearest folder upwards that is configured or holds snapshots or a Git repository; else `start`."""
    folder = start = os.path.realpath(start)
    while not _is_project(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent
    return folder


def find_repository(project: str) -> str:
    """The root of the Git repository around a project; the project itself where there is none."""
    folder = project = os.path.realpath(project)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return project
        folder = parent
    return folder


def _is_project(folder: str) -> bool:
    """Whether something in this folder makes it a project. A Git repository of another user does not."""
    if any(os.path.lexists(os.path.join(folder, mark)) for mark in (CONFIG_FILE, SNAPSHOTS_DIR)):
        return True
    repository = os.path.join(folder, ".git")
    if os.path.lexists(repository) and has_trusted_owner(repository):
        return True
    return configures_traceforge(os.path.join(folder, PYPROJECT_FILE))


def configures_traceforge(pyproject: str) -> bool:
    """Whether a pyproject.toml has our table; one that cannot be parsed counts where it seems to have one."""
    try:
        data = read_file(pyproject, bytes_max=CONFIG_BYTES_MAX)
    except CannotRead:
        return False  # missing, or not a file that could configure us
    try:
        return _parse_pyproject(data) is not None
    except InvalidConfig:
        return b"[tool.traceforge" in data


def _refuse_links_out(project: str, paths: Iterable[str]) -> None:
    """Refuse a path that a link, which a commit or an archive can bring, puts outside of the project."""
    link = find_link_out(project, paths)
    if link is not None:
        raise _bad(link, "a symbolic link leads out of the project", _LINK_HINT)


def _list_settings_files(project: str) -> list[str]:
    """The files and folders that decide what a command does in a project: settings, approved behaviour, checks, which
    run code, and what this machine keeps for itself.
    """
    paths = [os.path.join(project, name) for name in (CONFIG_FILE, SNAPSHOTS_DIR, CHECKS_DIR, STATE_DIR)]
    with suppress(CannotRead):  # There is no such folder, or it is not readable, which whoever reads it says.
        paths += [entry.path for entry in list_folder(os.path.join(project, STATE_DIR))]
    shared = os.path.join(project, PYPROJECT_FILE)
    return [*paths, shared] if _mentions(shared, b"traceforge") else paths


def _mentions(path: str, word: bytes) -> bool:
    try:
        return word in read_file(path, bytes_max=CONFIG_BYTES_MAX)
    except CannotRead:
        return False  # missing, or not a file that could configure us


def _read_project(project: str, paths: Sequence[str], owners: Container[int] | None) -> tuple[JSONObject, str]:
    """Read the settings; another user may put the files there after their owners were checked."""
    own, shared = os.path.join(project, CONFIG_FILE), os.path.join(project, PYPROJECT_FILE)
    has_shared = shared in paths and os.path.exists(shared)
    shared_data = read_file(shared, bytes_max=CONFIG_BYTES_MAX, owners=owners) if has_shared else None
    own_data = read_file(own, bytes_max=CONFIG_BYTES_MAX, owners=owners) if os.path.lexists(own) else None
    return _parse_project(own_data, shared_data)


def parse_config(own: bytes | None, shared: bytes | None) -> Config:
    """The configuration in the bytes of `traceforge.config.json` and of `pyproject.toml`, as a commit has them.

    Raises:
        InvalidConfig: as `load_config`.
    """
    return convert(_parse_project(own, shared)[0], Config)


def _parse_project(own: bytes | None, shared: bytes | None) -> tuple[JSONObject, str]:
    table = _parse_pyproject(shared) if shared is not None else None
    if own is not None:
        if table is not None:
            message = f"{CONFIG_FILE} and [tool.traceforge] in {PYPROJECT_FILE} both configure TraceForge"
            raise _bad(CONFIG_FILE, message, "Keep one of them.")
        values, where = _parse_own(own), CONFIG_FILE
    elif table is not None:
        values, where = table, f"{PYPROJECT_FILE} [tool.traceforge]"
    else:
        return {}, ""
    findings = tuple(_check(values, where))
    if findings:
        raise InvalidConfig(findings)
    return dict(values), where


def _parse_own(data: bytes) -> JSONObject:
    try:
        text = re.sub(_COMMENT, _blank, data.decode())
        value = parse_json(text.encode())
    except UnicodeDecodeError:
        raise _unreadable(CONFIG_FILE, "not UTF-8", "Save the file as UTF-8.") from None
    except NotJSON as exc:
        if exc.is_conflict:
            raise _unreadable(CONFIG_FILE, exc.message, exc.hint) from None
        hint = "Repair the file at that place; comments are allowed." if text.strip() else _EMPTY_HINT
        raise _unreadable(CONFIG_FILE, f"not JSON: {exc.message}", hint) from None
    if not isinstance(value, dict):
        raise _bad(CONFIG_FILE, "must hold one JSON object", "Start with {} and add settings.")
    if (name := find_repeated_name(text.encode(), nested=True)) is not None:
        raise _bad(CONFIG_FILE, f"{name} is set twice in one object", "Keep one of them: the last one would win.")
    return value


def _blank(match: re.Match[str]) -> str:
    """Keep strings; turn a comment into spaces, so that every place in the file stays where it is."""
    text = match[0]
    if text[0] == '"' or (text.startswith("/*") and not (text.endswith("*/") and len(text) >= 4)):
        return text  # A comment that never ends is left for the reader to refuse, at its place.
    return re.sub(r"[^\n]", " ", text)


def _parse_pyproject(data: bytes) -> JSONObject | None:
    if b"traceforge" not in data:
        return None  # Not about us; a broken one is not ours to judge.
    import tomllib  # A twentieth of what the pytest plugin adds to a run, and few projects need it.

    try:
        tools = tomllib.loads(data.decode()).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        if line := find_conflict_marker(data.decode(errors="replace")):
            raise _unreadable(PYPROJECT_FILE, f"{CONFLICT_MARKERS} at line {line}", CONFLICT_HINT) from None
        raise _unreadable(PYPROJECT_FILE, f"not TOML: {exc}", "Repair the file.") from None
    table = tools.get("traceforge") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise _bad(
            PYPROJECT_FILE, "tool.traceforge must be a table", "Write [tool.traceforge] and settings below it."
        )
    return cast("JSONObject | None", table)


def _check(values: JSONObject, where: str) -> Iterator[Finding]:
    for key in values:
        yield from _unknown(key, Config.__struct_fields__, where, "")
    for path, message in find_wildcards(values):
        hint = _MODELS_HINT if path.startswith("$.models") and ".match" not in path else _WILDCARD_HINT
        yield Finding(where, path, CONFIG_RULE, message, hint)
    models = values.get("models")
    for pattern, rule in (models if isinstance(models, dict) else {}).items():
        yield from _check_keys(rule, ModelRule.__struct_fields__, where, f"models[{pattern!r}].")
        match = rule.get("match") if isinstance(rule, dict) else None
        yield from _check_keys(match, VolatileParts.__struct_fields__, where, f"models[{pattern!r}].match.")
    yield from _check_upstreams(values.get("upstreams"), where)
    sections = {"callsite": CallSiteRule, "match": MatchRule, "test": TestRule, "approvals": ApprovalRule}
    for name, kind in sections.items():
        yield from _check_keys(values.get(name), kind.__struct_fields__, where, f"{name}.")
    test = values.get("test")
    tests = test.get("match") if isinstance(test, dict) else None
    for pattern, parts in (tests if isinstance(tests, dict) else {}).items():
        yield from _check_keys(parts, VolatileParts.__struct_fields__, where, f"test.match[{pattern!r}].")
    yield from _check_ports(test, where)
    yield from _check_hosts(values.get("hosts"), where)
    traces_dir = values.get("traces_dir")
    if isinstance(traces_dir, str) and not traces_dir.isprintable():
        yield Finding(where, "$.traces_dir", CONFIG_RULE, "traces_dir is not a folder name")
    elif isinstance(traces_dir, str) and (os.path.isabs(traces_dir) or ".." in re.split(r"[/\\]", traces_dir)):
        message = "traces_dir leads out of the project"
        yield Finding(where, "$.traces_dir", CONFIG_RULE, message, _TRACES_HINT)
    for problem in find_problems(cast("JSON", values), Config):
        if problem.message != "unknown field":  # reported above, with the nearest known key
            yield Finding(where, problem.path, CONFIG_RULE, f"{problem.path.removeprefix('$.')} {problem.message}")


def _check_keys(section: JSON, known_keys: tuple[str, ...], where: str, prefix: str) -> Iterator[Finding]:
    for key in section if isinstance(section, dict) else {}:
        yield from _unknown(key, known_keys, where, prefix)


def _check_hosts(hosts: JSON, where: str) -> Iterator[Finding]:
    for index, entry in enumerate(hosts if isinstance(hosts, list) else []):
        if isinstance(entry, str) and entry.startswith("!"):
            message = f"hosts[{index}] is {entry!r}: an entry cannot leave hosts out"
            yield Finding(where, f"$.hosts[{index}]", CONFIG_RULE, message, _EXCLUDED_HOST_HINT)


def _check_upstreams(upstreams: JSON, where: str) -> Iterator[Finding]:
    upstream_values = upstreams if isinstance(upstreams, dict) else {}
    same_as = {name: value.get("same_as") for name, value in upstream_values.items() if isinstance(value, dict)}
    for name, value in upstream_values.items():
        path = json_path("$.upstreams", name)
        yield from _check_keys(value, UpstreamRule.__struct_fields__, where, f"upstreams[{name!r}].")
        url = value.get("url") if isinstance(value, dict) else value
        if isinstance(url, str) and (reason := upstream_problem(name, url)):
            yield Finding(where, path, CONFIG_RULE, f"upstreams: {reason}", _UPSTREAM_HINT)
        elif isinstance(url, str) and _is_redirect(name, url):
            message = f"upstreams: {name!r} is built in, and a file of the project does not redirect it"
            yield Finding(where, path, CONFIG_RULE, message, _REDIRECT_HINT.format(name.lower(), name.upper()))
        visited, target = {name}, same_as.get(name)
        while isinstance(target, str) and target not in visited:
            visited.add(target)
            target = same_as.get(target)
        if isinstance(target, str):
            message = f"upstreams: {name!r} is the same as itself"
            yield Finding(where, path, CONFIG_RULE, message, "Name another upstream, a provider or a host.")


def _is_redirect(name: str, url: str) -> bool:
    """Whether a declaration moves a built-in provider to another scheme, host or port. Key variables have no case."""
    default = DEFAULT_UPSTREAMS.get(name.lower())
    return default is not None and urlsplit(url)[:2] != urlsplit(default)[:2]


def _check_ports(section: JSON, where: str) -> Iterator[Finding]:
    ports = section.get("allow_ports") if isinstance(section, dict) else None
    open_ports: set[int] = set()
    for index, port in enumerate(ports if isinstance(ports, list) else []):
        if isinstance(port, (int, float, str)) and not isinstance(port, bool) and port != "" and not port_range(port):
            message = f"test.allow_ports[{index}] is neither a port nor a range of ports"
            yield Finding(where, f"$.test.allow_ports[{index}]", CONFIG_RULE, message, _PORTS_HINT)
        elif isinstance(port, (int, float, str)) and not isinstance(port, bool):
            open_ports.update(port_range(port))
    if len(open_ports) > PORT_MAX - CLOSED_PORTS_MIN:
        message = f"test.allow_ports opens {len(open_ports)} ports, which means everything"
        yield Finding(where, "$.test.allow_ports", CONFIG_RULE, message, _PORTS_HINT)


def _unknown(key: str, known_keys: tuple[str, ...], where: str, prefix: str) -> Iterator[Finding]:
    if key in known_keys:
        return
    nearest = nearest_name(key, known_keys, 0.5)
    hint = f"Did you mean {prefix}{nearest}?" if nearest else f"Known here: {', '.join(sorted(known_keys))}."
    path = json_path(f"$.{prefix}".rstrip("."), key)
    yield Finding(where, path, CONFIG_RULE, f"unknown key {prefix}{key}", hint)


def _bad(where: str, message: str, hint: str) -> InvalidConfig:
    return InvalidConfig((Finding(where, "", CONFIG_RULE, message, hint),))


def _unreadable(where: str, message: str, hint: str) -> InvalidConfig:
    """The error for a file that cannot be parsed: it could not be checked, so no rule about settings is broken."""
    return InvalidConfig((Finding(where, "", PARSE, message, hint),))


def effective_settings(loaded: LoadedConfig) -> dict[str, JSON]:
    """Every setting with its value and its origin, ready to be printed."""
    values = msgspec.to_builtins(loaded.config)
    return {name: {"value": values[name], "from": origin} for name, origin in loaded.origins.items()}
