"""A tested command gets no real credential of a model provider and none of TraceForge, whatever the snapshots say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import PLAIN_PYTEST, traceforge
from traceforge.capture.run.cloud_credentials import GOOGLE_CREDENTIALS_FILE, GOOGLE_VARIABLE
from traceforge.capture.run.credentials import KEY_VARIABLES, PLACEHOLDER, filter_credentials

SECRET = "planted-secret-0123456789"
OURS = ("TRACEFORGE_MATCH_KEY", "TRACEFORGE_PROXY_TOKEN", "TRACEFORGE_UI_TOKEN")
CREDENTIALS = (
    *sorted(KEY_VARIABLES), "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK", "AZURE_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_CLIENT_SECRET", "HF_TOKEN",
    "AZURE_INFERENCE_CREDENTIAL", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_GENERATIVE_AI_API_KEY", "OPENAI_KEY",
    "HUGGINGFACEHUB_API_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_ADMIN_KEY", "OPENAI_API_KEY_2", "CEREBRAS_API_KEY",
    "MY_TEAM_OPENAI_API_KEY", "PERPLEXITYAI_API_KEY", "REPLICATE_API_TOKEN", "LITELLM_MASTER_KEY",
    "NVIDIA_NIM_API_KEY", "NVIDIA_API_KEY", "VOYAGE_API_KEY", "WATSONX_APIKEY", "TRACEFORGE_CONTEXT_API_KEY",
    "openai_api_key", "OPENAI_API_KEYS", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_SECRET", "SNOWFLAKE_PAT",
    "GIGACHAT_CREDENTIALS", "GIGACHAT_PASSWORD", "YANDEX_API_KEY", "CLOUDFLARE_API_TOKEN", "QIANFAN_SK",
    "OPENAI_API_KEY_PROD", "OPENAI_KEY_DEV", "PROD_OPENAI_API_KEY_EU_2", "GROQ_API_KEY_FALLBACK", "OPENAIKEY",
    "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "OPENAI__API_KEY", "OpenAI__ApiKey", "LLM_API_KEY",
    "CORP_LLM_API_KEY", "AI_GATEWAY_API_KEY", "GPT4_KEY", "CHATGPT_API_KEY", "CODEX_API_KEY", "OPEN_AI_KEY",
    "AZURE_OPENAI_API_KEY_EASTUS", "AZUREAI_KEY", "GOOGLE_AI_STUDIO_API_KEY", "GOOGLE_CREDENTIALS", "NGC_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "IBM_CLOUD_API_KEY", "ARK_API_KEY",
)  # fmt: skip
APPLICATION = (
    "DATABASE_PASSWORD", "STRIPE_API_KEY", "GITHUB_TOKEN", "SECRET_KEY", "DJANGO_SECRET_KEY", "OPENAI_TOKEN_LIMIT",
    "GOOGLE_CLIENT_SECRET", "OPENAI_MAX_TOKENS", "OPENAI_MODEL", "AWS_REGION", "AWS_PROFILE", "ANTHROPIC_CACHE_KEY",
    "OPENAI_ORG_ID", "KEY", "TOKEN", "TRACEFORGE_CONTEXT_DB", "OPENAI_KEY_VAULT_URL",
    "DATABRICKS_HOST", "SNOWFLAKE_USER", "OPENAI_PATH", "CLOUDFLARE_ACCOUNT_ID", "FULFILLMENT_API_KEY",
    "SKILLM_API_KEY", "PARK_API_KEY", "MODEL_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE", "HIDDENAIKEY",
)  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_credential_is_a_placeholder_where_no_recording_names_it(name: str) -> None:
    """It stays set, so that a client can be created as it was."""
    assert {name: PLACEHOLDER} == filter_credentials({name: SECRET}, ())


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("recorded", [(), ("OPENAI_API_KEY",)])
def test_our_own_secrets_are_removed(name: str, recorded: tuple[str, ...]) -> None:
    """No command needs them."""
    assert name not in filter_credentials({name: SECRET}, recorded)


@pytest.mark.parametrize("name", APPLICATION)
def test_a_variable_of_the_application_stays(name: str) -> None:
    """Also one whose name looks like a credential of something else."""
    value = f"of {name}"

    assert {name: value} == filter_credentials({name: value}, ())
    assert value == filter_credentials({name: value}, ("OPENAI_API_KEY",))[name]


def test_a_copy_of_a_credential_is_a_placeholder_too() -> None:
    """An application may have its own name for a key."""
    environ = {"LLM_SECRET": SECRET, "OPENAI_API_KEY": SECRET, "MODE": "none", "GROQ_API_KEY": "none"}

    filtered = filter_credentials(environ, ())

    assert dict.fromkeys(("LLM_SECRET", "OPENAI_API_KEY", "GROQ_API_KEY"), PLACEHOLDER) | {"MODE": "none"} == filtered
    assert PLACEHOLDER == filter_credentials(environ, ("GROQ_API_KEY",))["LLM_SECRET"]


def test_the_key_of_a_configured_upstream_is_a_placeholder() -> None:
    """Only there: the configuration says that it is one of a model."""
    environ = {"CORP_GATE_API_KEY": SECRET}

    assert environ == filter_credentials(environ, ())
    assert {"CORP_GATE_API_KEY": PLACEHOLDER} == filter_credentials(environ, (), ["corp-gate"])


@pytest.mark.parametrize(
    "value",
    [
        "4096",
        "true",
        "/run/secrets/key-of-openai",
        "https://keys.example.com/openai/1",
        "tiktoken.encoding_for_model",
    ],
)
def test_a_word_behind_a_credential_may_mean_something_else(value: str) -> None:
    """A limit, a switch, a file, an address: an application without it would behave otherwise."""
    environ = dict.fromkeys(("OPENAI_TOKEN_LIMIT", "OPENAI_API_KEY_REQUIRED", "OPENAI_API_KEY_FILE"), value)

    assert environ == filter_credentials(environ, ())


@pytest.mark.parametrize(
    "text", ["Bearer {}", '{{"api_key": "{}"}}', "https://user:{}@llm.example/v1", "{}\n", "'{}'", "a={},b={}"]
)
def test_a_credential_within_another_value_is_replaced_there(text: str) -> None:
    """The header, or the configuration, of a client that a proxy serves."""
    environ = {"OPENAI_API_KEY": SECRET, "GATEWAY": text.format(SECRET, SECRET)}

    assert text.format(PLACEHOLDER, PLACEHOLDER) == filter_credentials(environ, ())["GATEWAY"]
    assert text.format(PLACEHOLDER, PLACEHOLDER) == filter_credentials(environ, ("GROQ_API_KEY",))["GATEWAY"]


def test_a_path_to_credentials_is_not_replaced_within_other_paths() -> None:
    """A folder of credentials holds other files too."""
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": "/home/me/secrets", "COPY": "/home/me/secrets"}
    others = {"CERTIFICATE": "/home/me/secrets/ca.pem", "PATHS": "/usr/bin:/home/me/secrets"}

    assert dict.fromkeys(environ, PLACEHOLDER) | others == filter_credentials(environ | others, ())


MIXED = "a1B2c3D4e5F6g7H8" * 6
KEYS = (
    f"sk-proj-{MIXED[:48]}", f"sk-ant-api03-{MIXED}", f"sk-or-v1-{'0a1b2c3d' * 8}", f"sk-{MIXED[:48]}",
    f"AIza{MIXED[:35]}", f"gsk_{MIXED[:52]}", f"hf_{MIXED[:34]}", f"r8_{MIXED[:37]}", f"xai-{MIXED[:80]}",
    f"pplx-{MIXED[:48]}", f"nvapi-{MIXED[:64]}", f"csk-{MIXED[:48]}", f"tgp_v1_{MIXED[:43]}", f"ABSK{MIXED}",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("text", ["{}", "Authorization: Bearer {}", '[{{"key":"{}"}}]'])
def test_a_key_of_a_provider_is_known_by_its_form(key: str, text: str) -> None:
    """Whatever its variable is called."""
    assert {"BOT_ONE": text.format(PLACEHOLDER)} == filter_credentials({"BOT_ONE": text.format(key)}, ())


@pytest.mark.parametrize("value", ["sk-short", "task-" + MIXED, "AIzaShort", "sk-learn-model-2024-big", "gsk_0.1"])
def test_what_only_begins_like_a_key_stays(value: str) -> None:
    assert {"NAME": value} == filter_credentials({"NAME": value}, ())


@given(
    st.dictionaries(st.sampled_from((*CREDENTIALS, *OURS, *APPLICATION)), st.just(SECRET), min_size=1),
    st.sets(st.sampled_from((*CREDENTIALS, *OURS, *APPLICATION, "PATH"))),
)
def test_no_real_credential_passes(environ: dict[str, str], recorded: set[str]) -> None:
    """Whatever names a snapshot holds; and nothing but a key variable is set because a snapshot names it."""
    filtered = filter_credentials(environ, recorded)

    assert SECRET not in {filtered.get(name) for name in (*CREDENTIALS, *OURS)}
    assert filtered.keys() - environ.keys() <= KEY_VARIABLES & recorded


SHOW = """
import json, os, subprocess, sys
names = sys.argv[1:]
here = {name: os.environ.get(name) for name in names}
child = subprocess.run(["sh", "-c", "env"], capture_output=True, text=True).stdout
print(json.dumps([here, [name for name in names if f"{name}=planted" in child]]))
"""


def test_a_command_and_its_children_get_no_real_credential(tmp_path: Path) -> None:
    """Under `traceforge test`, where no snapshot names a key."""
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "traceforge.config.json").write_text("{}")
    names = [*CREDENTIALS, *OURS, "DATABASE_PASSWORD"]
    variables = dict.fromkeys(names, SECRET) | {"DATABASE_PASSWORD": "planted-for-the-application"}

    ran = traceforge("test", "--", sys.executable, "show.py", *names, cwd=tmp_path, **variables)

    here, in_child = json.loads(ran.out.splitlines()[0])
    without_secrets = {
        GOOGLE_VARIABLE: GOOGLE_CREDENTIALS_FILE
    }  # Its clients read a file, or they cannot be created.
    assert dict.fromkeys(CREDENTIALS, PLACEHOLDER) | dict.fromkeys(OURS) | without_secrets == {
        name: here[name] for name in (*CREDENTIALS, *OURS)
    }
    assert "planted-for-the-application" == here["DATABASE_PASSWORD"]
    assert ["DATABASE_PASSWORD"] == in_child
    assert SECRET not in ran.out + ran.err


IN_PROCESS = """
import os, subprocess

def test_environment():
    child = subprocess.run(["sh", "-c", "env"], capture_output=True, text=True).stdout
    assert "planted" not in "".join(map(str, os.environ.values()))
    assert "planted" not in child
    assert "TRACEFORGE_MATCH_KEY" not in os.environ
    assert os.environ["OPENAI_API_KEY"]
"""
AFTERWARDS = """
import os

def pytest_unconfigure():
    print("AFTER", os.environ["OPENAI_API_KEY"], os.environ["TRACEFORGE_MATCH_KEY"])
"""


def test_a_suite_under_plain_pytest_gets_no_real_credential(tmp_path: Path) -> None:
    """Neither in its process nor in its children; afterwards the process has them again."""
    (tmp_path / "test_it.py").write_text(IN_PROCESS)
    (tmp_path / "conftest.py").write_text(AFTERWARDS)
    (tmp_path / "traceforge.config.json").write_text("{}")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **PLAIN_PYTEST}
    environ |= dict.fromkeys([*CREDENTIALS, *OURS], SECRET)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--traceforge=test"], cwd=tmp_path,
        env=environ, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip

    assert "1 passed" in ran.stdout, ran
    assert f"AFTER {SECRET} {SECRET}" in ran.stdout
