"""The agent of `examples/` with approved snapshots, and variants of it for tests of the CI gate.

A `Variant` is one change: edits of the application's files, and how its tests are run. `CHANGES` alter requests, so
the gate must turn red; `HARMLESS` variants send the same requests, so it must stay green. Each variant runs in a
fresh clone, so with committed files only.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import NamedTuple

from support.command import PLAIN_PYTEST, CommandResult, traceforge
from support.model_servers import EXAMPLES

AGENT = EXAMPLES / "agent"
REQUEST_VARIANTS = Path(__file__).parents[1] / "apps" / "request_variants.py"
SUPPORT, TRIAGE, CODE, SHOP, TESTS = "prompts/support.md", "prompts/triage.md", "agent.py", "shop.py", "test_agent.py"
IDENTITY = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Edit(NamedTuple):
    """A replacement in one file; the file must contain `before`."""

    file: str
    before: str
    after: str
    everywhere: bool = False  # or the first time only

    def apply(self, project: Path) -> None:
        path = project / self.file
        text = path.read_text(encoding="utf-8")
        assert self.before in text, self
        path.write_text(text.replace(self.before, self.after, -1 if self.everywhere else 1), encoding="utf-8")


class Variant(NamedTuple):
    """One changed version of the application, or one other way to run its tests."""

    name: str
    edits: tuple[Edit, ...] = ()
    arguments: tuple[str, ...] = ()  # of pytest
    python: tuple[str, ...] = ()  # options of Python
    variables: tuple[tuple[str, str], ...] = ()
    place: str = "agent"  # the folder it is cloned to

    def run(self, pinned: Path, folder: Path, **variables: str) -> CommandResult:
        """Clone the project, apply the edits, and run `traceforge test`."""
        project = folder / self.place
        git(folder, "clone", "-q", str(pinned), str(project))
        for edit in self.edits:
            edit.apply(project)
        own = dict(self.variables)
        if any(name.startswith("VARIANT_") for name in own):
            (project / "conftest.py").write_bytes(REQUEST_VARIANTS.read_bytes())
        command = [sys.executable, *self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *self.arguments]
        return traceforge("test", "--", *command, cwd=project, **{**environment(), **variables, **own})


def environment() -> dict[str, str]:
    """The variables of every run."""
    return {"OPENAI_API_KEY": "none", **PLAIN_PYTEST, **IDENTITY}


def git(cwd: Path, *arguments: str) -> None:
    """Run Git with a fixed author."""
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, env={"PATH": "/usr/bin:/bin", **IDENTITY})


def pin(folder: Path, url: str) -> Path:
    """A repository with the agent, its behaviour recorded at `url`, approved and committed."""
    project = copytree(AGENT, folder / "pinned", ignore=ignore_patterns("__pycache__"))
    git(project, "init", "-q")
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.com")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    variables = {**environment(), "OPENAI_BASE_URL": f"{url}/v1"}
    for step in (("init",), ("record", "--", *command), ("approve", "--all", "--reason", "The first behaviour")):
        ran = traceforge(*step, cwd=project, **variables)
        assert 0 == ran.code, ran
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Pin the behaviour")
    return project


# -- changes


def one_character(file: str, count: int, within: tuple[str, ...] = ()) -> Iterator[Variant]:
    """Edits that replace, delete, double or change the case of one character, at seeded places."""
    text = (AGENT / file).read_text(encoding="utf-8").strip()
    chance = random.Random(file)
    for number in range(count):
        part = within[number % len(within)] if within else text
        at = chance.choice([place for place, character in enumerate(part) if character.isalpha()])
        old = part[at]
        new = (chr(ord(old) ^ 3) if chr(ord(old) ^ 3).isalpha() else "q", "", old * 2, old.swapcase())[number % 4]
        kind = ("replaced", "deleted", "doubled", "case")[number % 4]
        yield Variant(f"{file}-{number}-{kind}", (Edit(file, part, part[:at] + new + part[at + 1 :]),))


def settings() -> Iterator[Variant]:
    """Another model, and every sampling parameter changed or added."""
    for before, after in [
        ('"gpt-4.1-mini"', '"gpt-4.1"'), ('"gpt-4.1-mini"', '"gpt-4.1-Mini"'), ('"gpt-4.1-mini"', '"gpt-4.1-mini "'),
        ('"temperature": 0', '"temperature": 0.1'), ('"temperature": 0', '"temperature": 1e-9'),
        ('"temperature": 0, ', ""), ('"seed": 7', '"seed": 8'), ('"seed": 7', '"seed": -7'), ('"seed": 7, ', ""),
        ('"max_tokens": 300', '"max_tokens": 301'), ('"max_tokens": 300', '"max_completion_tokens": 300'),
        (', "max_tokens": 300', ""),
    ]:  # fmt: skip
        yield Variant(f"setting-{before}-{after}", (Edit(CODE, before, after),))
    for more in (
        '"top_p": 0.9', '"top_p": 1', '"frequency_penalty": 0.1', '"presence_penalty": 0.1', '"stop": "END"',
        '"logit_bias": {"50256": -100}', '"logprobs": True', '"user": {"name": "ada"}', '"reasoning_effort": "low"',
        '"verbosity": "low"', '"service_tier": "flex"', '"metadata": {"a": "b"}', '"store": True',
        '"extra_body": {"top_k": 5}', '"extra_headers": {"OpenAI-Beta": "x=1"}',
        '"extra_query": {"api-version": "2"}',
    ):  # fmt: skip
        yield Variant(f"added-{more}", (Edit(CODE, '"max_tokens": 300', f'"max_tokens": 300, {more}'),))


def requests() -> Iterator[Variant]:
    """Changes of the messages, the tools and the response format."""
    loop = "tools=TOOLS, stream_options"
    system = '{"role": "system", "content": read_prompt("support")}'
    user = '{"role": "user", "content": question}'
    run, plain = "(**json.loads(arguments)))", "response_format=TRIAGE, "
    for name, file, before, after in [
        ("choice-required", CODE, loop, 'tools=TOOLS, tool_choice="required", stream_options'),
        ("choice-none", CODE, loop, 'tools=TOOLS, tool_choice="none", stream_options'),
        ("choice-auto", CODE, loop, 'tools=TOOLS, tool_choice="auto", stream_options'),
        ("parallel-tools", CODE, loop, "tools=TOOLS, parallel_tool_calls=False, stream_options"),
        ("no-usage", CODE, ', stream_options={"include_usage": True}', ""),
        ("tools-swapped", CODE, loop, "tools=TOOLS[::-1], stream_options"),
        ("tool-removed", CODE, loop, "tools=TOOLS[:1], stream_options"),
        ("tool-doubled", CODE, loop, "tools=[*TOOLS, TOOLS[0]], stream_options"),
        ("messages-swapped", CODE, "messages=self.messages,", "messages=self.messages[::-1],"),
        ("message-added", CODE, system, system + ', {"role": "system", "content": "Be brief."}'),
        ("message-empty", CODE, system, system + ', {"role": "user", "content": ""}'),
        ("message-doubled", CODE, system, f"{system}, {system}"),
        ("message-dropped", CODE, f"[{system}]", "[]"),
        ("message-named", CODE, user, user.replace("}", ', "name": "x"}')),
        ("role", CODE, system, system.replace('"system"', '"developer"')),
        ("parts", CODE, user, user.replace("question", '[{"type": "text", "text": question}]')),
        ("space-behind", CODE, '.strip()', '.strip() + " "'),
        ("newline-kept", CODE, '.strip()', ""),
        ("tool-name", SHOP, "look_up_order", "find_order"),
        ("tool-pattern", SHOP, "[0-9]{4}", "[0-9]{4,5}"),
        ("tool-strict", SHOP, '"strict": True', '"strict": False'),
        ("tool-open", SHOP, '"additionalProperties": False', '"additionalProperties": True'),
        ("tool-required", SHOP, "list(properties)", "list(properties)[:1]"),
        ("tool-type", SHOP, '"string", "description": "Why', '["string", "null"], "description": "Why'),
        ("tool-enum-order", SHOP, '"enum": list(SHARE_REFUNDED)', '"enum": list(SHARE_REFUNDED)[::-1]'),
        ("tool-enum-more", SHOP, '"enum": list(SHARE_REFUNDED)', '"enum": [*SHARE_REFUNDED, "lost"]'),
        ("tool-property", SHOP, '"reason": REASON}', '"reason": REASON, "note": {"type": "string"}}'),
        ("tool-title", SHOP, 'REASON = {', 'REASON = {"title": "Reason", '),
        ("tool-result", SHOP, '"total": 24.5', '"total": 24.6'),
        ("tool-result-key", SHOP, '"status": "on its way"', '"state": "on its way"'),
        ("tool-result-spacing", SHOP, run, run.replace(")))", ")), indent=1)")),
        ("format-object", CODE, "response_format=TRIAGE", 'response_format={"type": "json_object"}'),
        ("format-none", CODE, plain, ""),
        ("format-name", CODE, '"name": "triage"', '"name": "triages"'),
        ("format-strict", CODE, '"strict": True', '"strict": False'),
        ("format-enum", CODE, '"refund", "other"]', '"refund", "others"]'),
        ("format-enum-order", CODE, '"refund", "other"]', '"other", "refund"]'),
        ("format-maximum", CODE, '"maximum": 100', '"maximum": 99'),
        ("format-required", CODE, '"required": ["category", "certainty"]', '"required": ["category"]'),
        ("format-type", CODE, '"type": "integer"', '"type": "number"'),
        ("plain-not-streamed", CODE, plain, f"{plain}stream=False, "),
        ("triage-with-tools", CODE, plain, f'{plain}tools=TOOLS, tool_choice="none", '),
    ]:  # fmt: skip
        yield Variant(name, (Edit(file, before, after, everywhere=name in ("tool-name", "newline-kept")),))


QUESTIONS = (
    '"I want a refund for order A-1001, it arrived damaged."', '"What about order A-9999?"', '"And order A-1003?"',
    '"Where is my order A-1003?"', '"Where is my order A-1002?"',
)  # fmt: skip
DESCRIPTIONS = (
    "The number of the order, such as A-1001.", "Why the customer wants it.",
    "Find an order: its title, status and total.", "Compute how much a customer gets back.",
)  # fmt: skip

CHANGES = [
    *one_character(SUPPORT, 24),
    *one_character(TRIAGE, 12),
    *one_character(TESTS, 10, QUESTIONS),
    *one_character(SHOP, 12, DESCRIPTIONS),
    *settings(),
    *requests(),
]


# -- what changes nothing


def wire() -> Iterator[Variant]:
    """The same requests, encoded differently."""
    bodies = (
        "sorted",
        "indent-1",
        "indent-4",
        "ascii",
        "raw",
        "compact",
        "wide",
        "tabs",
        "padded",
        "escaped",
        "floats",
    )
    for body in (*bodies, *(f"shuffled-{number}" for number in range(6))):
        yield Variant(f"body-{body}", variables=(("VARIANT_BODY", body),))
    extra = ("x-request-id=1", "traceparent=00-1-2-00", "x-stainless-retry-count=2", "x-b3-traceid=1&baggage=a")
    for headers in ("reversed", "upper", "shuffled-1", "shuffled-2", "shuffled-3", *extra):
        yield Variant(f"headers-{headers}", variables=(("VARIANT_HEADERS", headers),))
    for order in ("reversed", *map(str, range(8))):
        yield Variant(f"order-{order}", variables=(("VARIANT_ORDER", order),))
    for days in ("1", "-30", "400"):
        yield Variant(f"days-{days}", variables=(("VARIANT_DAYS", days),))


def selections() -> Iterator[Variant]:
    """Some of the tests, in one or several processes."""
    names = ("looked_up", "computed", "admitted", "goes_on", "streamed", "sorted")
    for name in names:
        yield Variant(f"k-{name}", arguments=("-k", name))
    for first, other in list(combinations(names, 2))[::2]:
        yield Variant(f"k-{first}-or-{other}", arguments=("-k", f"{first} or {other}"))
    for test in ("test_an_order_is_looked_up", "test_the_answer_is_streamed", "test_messages_are_sorted"):
        yield Variant(f"node-{test}", arguments=(f"test_agent.py::{test}",))
    for number, way in (
        ("1", "load"),
        ("2", "load"),
        ("2", "loadfile"),
        ("2", "loadscope"),
        ("2", "worksteal"),
        ("3", "each"),
    ):
        yield Variant(f"xdist-{number}-{way}", arguments=("-n", number, "--dist", way))
    for flags in (
        ("-v",),
        ("-s",),
        ("-x",),
        ("--tb=short",),
        ("--deselect", "test_agent.py::test_messages_are_sorted"),
    ):
        yield Variant(f"pytest-{flags[0]}", arguments=flags)
    for python in (("-O",), ("-B",), ("-X", "utf8"), ("-X", "dev"), ("-u",)):
        yield Variant(f"python-{python[-1]}", python=python)


def machines() -> Iterator[Variant]:
    """Another machine, another user, another folder."""
    for place in ("somewhere/else/deep/down", "with a space", "größe", "x" * 60):
        yield Variant(f"place-{place}", place=place)
    for name, value in [
        ("HOME", "/nonexistent"), ("USER", "eve"), ("HOSTNAME", "ci-42"), ("TZ", "Asia/Tokyo"), ("TZ", "Asia/Aden"),
        ("LANG", "C"), ("LC_ALL", "C.UTF-8"), ("PYTHONHASHSEED", "1"), ("PYTHONHASHSEED", "2"), ("COLUMNS", "40"),
        ("NO_COLOR", "1"), ("CI", "true"), ("OPENAI_API_KEY", "another"), ("OPENAI_ORG_ID", "org-1"),
        ("PYTHONUTF8", "0"), ("TMPDIR", "/var/tmp"), ("OPENAI_LOG", "info"),
    ]:  # fmt: skip
        yield Variant(f"variable-{name}-{value.replace('/', '_')}", variables=((name, value),))


def code() -> Iterator[Variant]:
    """Changed code that sends the same requests."""
    header, client = "from __future__ import annotations\n", "client or OpenAI()"
    for name, file, before, after in [
        ("lines-moved", CODE, header, header + "\n# A comment.\n" * 9),
        ("lines-moved-in-tests", TESTS, header, header + "\n# A comment.\n" * 9),
        ("function-renamed", CODE, "_reply", "_next_reply"),
        ("helper-renamed", CODE, "_assistant_message", "_as_message"),
        ("settings-turned", CODE, '"temperature": 0, "seed": 7', '"seed": 7, "temperature": 0'),
        ("setting-as-float", CODE, '"temperature": 0,', '"temperature": 0.0,'),
        ("message-turned", CODE, '{"role": "user", "content": question}', '{"content": question, "role": "user"}'),
        ("tool-turned", SHOP, '"name": name, "description": description', '"description": description, "name": name'),
        ("order-not-asked-for", SHOP, '    "A-1003"', '    "A-1004": {},\n    "A-1003"'),
        ("steps", CODE, "STEPS_MAX = 6", "STEPS_MAX = 9"),
        ("no-retries", CODE, client, "client or OpenAI(max_retries=0)"),
        ("many-retries", CODE, client, "client or OpenAI(max_retries=9)"),
        ("timeout", CODE, client, "client or OpenAI(timeout=3)"),
        ("prompt-file-ends-otherwise", SUPPORT, "language.\n", "language.\n\n\n"),
        ("test-documented", TESTS, "The status comes from the shop", "The status is that of the shop"),
    ]:  # fmt: skip
        yield Variant(f"code-{name}", (Edit(file, before, after, everywhere="renamed" in name),))


HARMLESS = [*wire(), *selections(), *machines(), *code()]
