"""The reference is complete: every command, error, rule, setting and format is described, and nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import click
import pytest
from pages import ROOT, Page, all_pages, read_page

from traceforge.audit.rule_catalogue import RULES
from traceforge.capture.hook.conversation_body import FRAMES_MAX
from traceforge.capture.hook.in_flight_call import BODY_BYTES_MAX as KEPT_BYTES_MAX
from traceforge.capture.hook.websocket_frames import MESSAGE_BYTES_MAX
from traceforge.capture.proxy.worker import TOKEN_VARIABLE
from traceforge.capture.run.local_programs import LOCAL_PROGRAMS
from traceforge.capture.telemetry_hosts import TELEMETRY_HOSTS
from traceforge.chat.chat_connection import BODY_BYTES_MAX, ROUTES
from traceforge.chat.chat_errors import ChatErrorCode
from traceforge.chat.conversation_memory import BYTES_MAX, MESSAGES_MAX, SESSIONS_MAX
from traceforge.chat.provider_model import RESPONSE_BYTES_MAX
from traceforge.checks.assertions.evaluation import find_assertion_problems
from traceforge.checks.formats.assertion_types import ASSERTION_TYPES, AnyAssertion, assertion_tag
from traceforge.checks.formats.check_types import Check
from traceforge.cli.command_table import TOP
from traceforge.cli.main import cli
from traceforge.cli.ui_command import EDITOR_VARIABLE, UI_TOKEN_VARIABLE
from traceforge.config import (
    ENVIRONMENT_VARIABLES,
    MATCH_KEY_VARIABLE,
    UPSTREAM_VARIABLE,
    ApprovalRule,
    CallSiteRule,
    Config,
    MatchRule,
    ModelRule,
    TestRule,
    UpstreamRule,
)
from traceforge.context.api.error_responses import TYPES
from traceforge.context.api.http_transport import HTTP_HOSTS_VARIABLE
from traceforge.context.api.idempotency import LEASE_S, WAIT_S
from traceforge.context.api.open_store import KEYS_VARIABLE
from traceforge.context.api.operation_types import LIMIT_DEFAULT, LIMIT_MAX
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.api.project_client import API_KEY_VARIABLE, DB_VARIABLE
from traceforge.context.api.request_decoding import KEY_CHARACTERS_MAX
from traceforge.context.history.artifact_expiry import EPHEMERAL_HOURS_VARIABLE
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.conversion import convert
from traceforge.errors import all_errors
from traceforge.findings import ExitCode
from traceforge.http.server_limits import (
    CHAT_LIMITS,
    CONNECTIONS_RESERVED,
    DISCARDED_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    PIPELINED_BYTES_MAX,
    PROXY_LIMITS,
    STORE_LIMITS,
    UI_LIMITS,
)
from traceforge.located_yaml import load_located_yaml
from traceforge.schemas import NAMES
from traceforge.ui.event_hub import CLIENTS_MAX
from traceforge.web.project_calls import MODEL_CALLS_MAX
from traceforge.web.request_reading import BODY_BYTES_MAX as CONTEXT_BODY_BYTES_MAX

REFERENCE = ROOT / "docs" / "reference"
PAGES = all_pages()
KINDS = ("security", "removed", "deprecated", "added", "changed", "fixed", "format")
INVALID = "invalid_request_error"
_FRAGMENT = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")


def _commands(command: click.Command, words: str = "traceforge") -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _commands(child, f"{words} {name}")


COMMANDS = dict(_commands(cli))
CLI_PAGES = [read_page(path) for path in sorted(REFERENCE.glob("cli*.md"))]


def test_every_command_has_a_heading_and_all_its_options() -> None:
    """On the pages about the command line: one for each group, and one for all."""
    texts: dict[str, str] = {}
    for page in CLI_PAGES:
        commands = [heading for heading in page.headings(2) if heading.split()[0] == "traceforge"]
        texts |= dict(zip(commands, (block.text for block in page.blocks), strict=True))

    names = [(words, name) for words, command in COMMANDS.items() for each in command.params for name in _names(each)]

    assert [] == [
        (words, name)
        for words, name in names
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", texts[words])
    ]


def _names(param: click.Parameter) -> list[str]:
    return list(param.opts) if isinstance(param, click.Option) else [str(param.metavar)]


def test_the_pages_about_the_command_line_name_no_other_command() -> None:
    headings = {heading for page in CLI_PAGES for heading in page.headings(2)}

    assert set(COMMANDS) == headings - set(TOP)


def test_generated_files_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    completed = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )

    assert (0, "") == (completed.returncode, completed.stdout + completed.stderr)


def test_the_page_about_errors_has_exactly_the_error_codes() -> None:
    """In order."""
    assert sorted(error.code for error in all_errors()) == read_page(REFERENCE / "errors.md").headings(2)


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.code)
def test_an_error_is_documented_with_its_exit_code(error: type) -> None:
    text = (REFERENCE / "errors.md").read_text(encoding="utf-8")

    section = text.split(f"\n## {error.code}\n")[1].split("\n## ")[0]

    assert ["Meaning", "Cause", "Do", "Exit code"] == re.findall(r"^- ([\w ]+):", section, re.MULTILINE)
    assert f"\n- Exit code: {int(error.exit_code)}." in section


def test_the_page_about_rules_has_exactly_the_rules() -> None:
    """In the order of `traceforge help errors`."""
    assert list(RULES) == read_page(REFERENCE / "rules.md").headings(3)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_documented_with_an_example_and_a_hint(rule: str) -> None:
    text = (REFERENCE / "rules.md").read_text(encoding="utf-8")

    section = text.split(f"\n### {rule}\n")[1].split("\n#")[0]

    assert ["Why", "Broken by", "Do"] == re.findall(r"^- ([\w ]+):", section, re.MULTILINE)


def test_every_setting_and_environment_variable_has_a_heading() -> None:
    """The page about the configuration has exactly these."""
    page = read_page(REFERENCE / "config.md")

    assert ["Approved settings", *Config.__struct_fields__, "Environment variables"] == page.headings(2)
    owners = {
        "models": ModelRule, "upstreams": UpstreamRule, "callsite": CallSiteRule, "match": MatchRule,
        "test": TestRule, "approvals": ApprovalRule,
    }  # fmt: skip
    rules = [  # One that has the name of a section is named with its own section.
        f"{section}.{rule}" if rule in Config.__struct_fields__ else rule
        for section, owner in owners.items()
        for rule in owner.__struct_fields__
    ]
    store = [
        DB_VARIABLE, KEYS_VARIABLE, EPHEMERAL_HOURS_VARIABLE, API_KEY_VARIABLE, HTTP_HOSTS_VARIABLE,
        f"{UPSTREAM_VARIABLE}…",
    ]  # fmt: skip
    servers = [TOKEN_VARIABLE, UI_TOKEN_VARIABLE, EDITOR_VARIABLE]
    assert [*rules, *ENVIRONMENT_VARIABLES, MATCH_KEY_VARIABLE, *servers, *store, "CI"] == page.headings(3)
    text = page.path.read_text(encoding="utf-8")
    assert [] == [name for name in PROVIDERS if f"`{UPSTREAM_VARIABLE}{name.upper()}`" not in text]


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_mentioned_by_the_page_of_its_format(name: str) -> None:
    page = REFERENCE / f"format-{'pack' if name.startswith('pack-') else name}.md"

    assert f"`traceforge schema {name}`" in page.read_text(encoding="utf-8")


def test_every_refusal_of_the_chat_is_documented() -> None:
    """A row for each code, with its status, in order."""
    text = (REFERENCE / "chat.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \| ", text, re.MULTILINE)

    assert [(code.word, str(code.status)) for code in ChatErrorCode] == rows


def test_every_path_and_limit_of_the_chat_is_documented() -> None:
    text = (REFERENCE / "chat.md").read_text(encoding="utf-8")
    numbers = [
        f"{BODY_BYTES_MAX:,}",
        f"{SESSIONS_MAX:,}",
        f"{BYTES_MAX >> 20} MiB",
        f"{RESPONSE_BYTES_MAX >> 20} MiB",
        f"last {MESSAGES_MAX} messages",
        f"{CHAT_LIMITS.head_seconds:g} seconds",
    ]

    assert [] == [path for path in ROUTES if f"`{path}`" not in text]
    assert [] == [number for number in numbers if number not in text]


def test_every_route_of_the_context_store_is_documented() -> None:
    """With its scope and status, in order, and the limits."""
    text = (REFERENCE / "context-api.md").read_text(encoding="utf-8")

    rows = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \| (\d{3}) \| (.*) \|$", text, re.MULTILINE)
    numbers = [f"{CONTEXT_BODY_BYTES_MAX:,} bytes", f"{STORE_LIMITS.body_seconds:g} seconds", f"1 to {LIMIT_MAX}",
               f"by default {LIMIT_DEFAULT}", f"1 to {KEY_CHARACTERS_MAX} ", f"after {WAIT_S} seconds",
               f"lease of {LEASE_S:g} seconds"]  # fmt: skip

    assert [
        (operation.method, operation.path, operation.scope, str(operation.status), operation.summary)
        for operation in OPERATIONS
    ] == rows
    assert [] == [number for number in numbers if number not in text]


def test_the_page_of_limits_has_the_limits_of_every_server() -> None:
    """In the order proxy, serve, chat, ui."""
    text = (REFERENCE / "server-limits.md").read_text(encoding="utf-8")
    rows = {cells[1]: cells[2:6] for line in text.splitlines() if len(cells := re.split(r" *\| *", line)) == 8}
    servers = (PROXY_LIMITS, STORE_LIMITS, CHAT_LIMITS, UI_LIMITS)

    assert [f"{limits.connections:,}" for limits in servers] == [
        cell.removesuffix(" in each process") for cell in rows["connections at once"]
    ]
    assert [f"{limits.connections - CONNECTIONS_RESERVED:,}" for limits in servers] == rows["calls in flight"]
    shares = [f"{limits.calls_per_address:,}" for limits in servers]
    assert shares == rows["calls in flight of an address, without a key"]
    assert [f"{HEAD_BYTES_MAX >> 10} KiB"] * 4 == rows["size of a head"]
    assert [str(HEADERS_MAX)] * 4 == rows["headers of a request"]
    assert [f"{limits.head_seconds:g} s" for limits in servers] == rows["time for a head"]
    bodies = [f"{CONTEXT_BODY_BYTES_MAX >> 20} MiB", f"{BODY_BYTES_MAX >> 10} KiB"]
    assert ["none", *bodies, f"{(UI_LIMITS.body_bytes or 0) >> 20} MiB"] == rows["size of a body"]
    assert [f"{limits.body_seconds:g} s" for limits in servers] == [
        cell.partition(",")[0] for cell in rows["time for a body"]
    ]
    assert [f"{limits.idle_seconds:g} s" for limits in servers] == rows["time between two requests"]
    assert [f"{PIPELINED_BYTES_MAX >> 10} KiB"] * 4 == rows["requests sent ahead"]
    assert [f"{limits.write_seconds:g} s" for limits in servers] == rows["time to take what was written"]
    rest = [f"{DISCARDED_BYTES_MAX >> 20} MiB, {limits.discard_seconds:g} s" for limits in servers]
    assert rest == rows["rest of a refused request"]
    assert f"{MODEL_CALLS_MAX}, with API keys" == rows["model calls in flight of a project"][1]
    assert str(CLIENTS_MAX) == rows["pages that listen for events"][3]
    assert f"{MESSAGE_BYTES_MAX >> 20} MiB" == rows["message of a WebSocket"][0]
    messages = f"{FRAMES_MAX:,}, {KEPT_BYTES_MAX >> 20} MiB of each side"
    assert messages == rows["messages of a WebSocket"][0]


def test_every_error_of_the_context_store_is_documented() -> None:
    """Each error code of the source, with its status and type, and no other."""
    text = (REFERENCE / "context-api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.*) \| .* \|$", text, re.MULTILINE)

    documented = {(int(status), code) for status, _, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert [] == [(status, kind) for status, kind, _ in rows if TYPES.get(int(status), INVALID) != kind]
    assert set(_error_codes()) == documented


def _error_codes() -> Iterator[tuple[int, str]]:
    """In the source: StoreRefused(…, reason=CODE, status=STATUS), ErrorResponse(STATUS, CODE, …) and others."""
    source = ROOT / "src" / "traceforge"
    rooms = (source / "context", source / "web", source / "errors")
    for path in [path for room in rooms for path in room.rglob("*.py")]:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            keywords = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
            constants = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
            if isinstance(code := keywords.get("reason"), str):
                yield int(str(keywords.get("status", 400))), code
            elif name == "ErrorResponse" and [int, str] == [type(constant) for constant in constants[:2]]:
                yield int(str(constants[0])), str(constants[1])
            elif name == "_refused" and path.name == "rr_1.py":
                yield 422, next(str(text) for text in constants if re.fullmatch(r"[a-z_]+", str(text)))
    yield from ((400, "unknown_field"), (400, "invalid_fields"))  # InvalidFields.
    yield from ((405, "method_not_allowed"), (403, "other_origin"), (421, "other_host"))
    yield from ((503, "store_unavailable"), (503, "outcome_unknown"), (504, "provider_timeout"))


def test_the_offline_lists_are_those_of_the_code() -> None:
    """Every program and every host, and no other."""
    programs, hosts = (REFERENCE / "offline-lists.md").read_text(encoding="utf-8").split("\n## ")[1:]
    names = "".join(part for part in programs.split("\n\n") if part.startswith(("Shells", "Launchers", "Tools")))

    assert sorted(LOCAL_PROGRAMS) == sorted(re.findall(r"`([^`]+)`", names))
    assert sorted(TELEMETRY_HOSTS.items()) == re.findall(r"^\| `([^`]+)` \| (.+) \|$", hosts, re.MULTILINE)


def test_every_exit_code_is_documented() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")

    assert [] == [code for code in ExitCode if f"\n| {int(code)} |" not in text]


def test_the_architecture_page_lists_the_packages_of_every_import_contract() -> None:
    """A table for each layers contract, in the same order."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [
        [f"{container}.{layer}".removeprefix("traceforge.").replace(".", "/") for layer in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract["containers"]
    ]
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    tables = [
        [room.replace("`", "").replace(", ", " | ") for room in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)]
        for table in text.split("| room | what it holds |")[1:]
    ]

    assert sorted(layers) == sorted(tables)


def test_every_changelog_fragment_has_a_known_kind_and_one_sentence() -> None:
    """A fragment is `<slug>.<kind>.md`."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "changelog.d").iterdir()}
    kinds = re.findall(r"^\| `(\w+)` \|", texts.pop("README.md"), re.MULTILINE)

    assert list(KINDS) == kinds
    assert [] == [name for name in texts if not _FRAGMENT.fullmatch(name)]
    assert [] == [name for name, text in texts.items() if not re.fullmatch(r"\S[^\n]*\.\n", text)]


def test_every_decision_is_listed() -> None:
    """In order, under its own title."""
    folder = ROOT / "docs" / "decisions"
    pages = [read_page(path) for path in sorted(folder.glob("[0-9]*.md"))]
    listed = re.findall(r"^\| \[(\d{4})\]\((.*?)\) \| (.*) \|$", (folder / "README.md").read_text(), re.MULTILINE)

    assert [(page.path.name[:4], page.path.name) for page in pages] == [row[:2] for row in listed]
    assert [page.headings(1) for page in pages] == [[f"{row[0]} {row[2].replace('`', '')}"] for row in listed]


def test_every_link_of_every_page_has_its_target() -> None:
    """A relative link names an existing file, and after # one of its headings."""
    assert [] == [(page.name, link) for page in PAGES for link in page.links() if not _resolves(page, link)]


def _resolves(page: Page, link: str) -> bool:
    if link.startswith(("https://", "mailto:")):
        return True
    name, _, anchor = link.partition("#")
    target = (page.path.parent / name).resolve() if name else page.path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or (target.suffix == ".md" and anchor in read_page(target).anchors())


def test_every_page_can_be_reached_from_the_readme() -> None:
    by_path = {page.path: page for page in PAGES}
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = by_path[waiting.pop()]
        targets = {(page.path.parent / link.partition("#")[0]).resolve() for link in page.links() if link[0] != "#"}
        waiting += (targets & by_path.keys()) - reached
        reached |= targets & by_path.keys()

    fragments = {path for path in by_path if path.parent.name == "changelog.d"}

    assert [] == sorted(page.name for path, page in by_path.items() if path not in reached | fragments)


def test_every_page_has_one_title_and_starts_with_it() -> None:
    """Except changelog fragments."""
    for page in PAGES:
        if _FRAGMENT.fullmatch(page.path.name):
            assert [] == page.headings(), page.name
        else:
            assert page.headings(1) == page.headings()[:1], page.name
            assert page.prose[0].startswith("# "), page.name


def test_the_support_matrix_names_the_versions_of_the_lock_files() -> None:
    """Only what the suite runs is called tested."""
    text = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    locks = [
        (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        for name in ("litellm", "aws", "apps", "dev")
    ]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(locks), re.MULTILINE))

    rows = re.findall(r"^\| ([a-z0-9-]+) \| ([0-9.]+) \|", text, re.MULTILINE)

    assert 20 == len(rows)
    assert [] == [(name, version) for name, version in rows if version != pinned[name]]


def test_every_field_of_a_check_file_is_documented() -> None:
    """A heading for each assertion, with its fields, and a row for each field of a check."""
    page = read_page(REFERENCE / "format-check.md")
    text = page.path.read_text(encoding="utf-8")

    assert list(ASSERTION_TYPES) == page.headings(3)
    assert [] == [name for name in Check.__struct_fields__ if f"`{name}`" not in text.split("## Data sets")[0]]
    for name, kind in ASSERTION_TYPES.items():
        section = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        fields = [field for field in kind.__struct_fields__ if field not in ("name", "ignore_case")]
        assert [] == [field for field in fields if f"`{field}" not in section and f"{field}:" not in section], name


def test_every_example_of_an_assertion_can_be_used() -> None:
    """The block below each heading is an assertion of that type."""
    page = read_page(REFERENCE / "format-check.md")
    examples = [block.text for block in page.blocks if block.language == "yaml" and block.text.startswith("type:")]

    names = []
    for text in examples:
        assertion = convert(load_located_yaml(text.encode()).value, AnyAssertion)
        assert [] == list(find_assertion_problems([assertion], "$")), text
        names.append(assertion_tag(assertion))

    assert list(ASSERTION_TYPES) == names
