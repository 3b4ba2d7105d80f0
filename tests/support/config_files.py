"""Configuration files of a project, and the findings with which they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from traceforge.config import CONFIG_FILE, LoadedConfig, load_config
from traceforge.errors import InvalidConfig
from traceforge.findings import Finding


def write_config(project: Path, text: str | dict[str, Any], name: str = CONFIG_FILE) -> Path:
    (project / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return project


def load_project_config(project: Path, **environ: str) -> LoadedConfig:
    return load_config(str(project), environ)


def find_refusals(project: Path) -> tuple[Finding, ...]:
    with pytest.raises(InvalidConfig) as caught:
        load_project_config(project)
    return caught.value.findings


def refusal_messages(project: Path) -> list[str]:
    return [finding.message for finding in find_refusals(project)]


def mark_project(project: Path) -> Path:
    (project / ".git").mkdir()
    return project


def configure(folder: Path, **settings: object) -> Path:
    """A folder with these settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).write_text(json.dumps(settings))
    return folder


def refuse(folder: Path, **settings: object) -> str:
    """The message with which the configuration is refused."""
    with pytest.raises(InvalidConfig) as refused:
        load_config(str(configure(folder, **settings)), {})
    assert refused.value.hint
    return refused.value.message
