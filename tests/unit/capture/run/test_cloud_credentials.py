"""Credentials of clouds in the environment of a replay."""

from __future__ import annotations

import json
from pathlib import Path

from traceforge.capture.run.cloud_credentials import GOOGLE_CREDENTIALS_FILE, find_clouds, make_cloud_variables
from traceforge.capture.run.environment import RecordedVariables

AZURE = {"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"}


def test_clouds_are_found_by_the_upstream_or_by_the_path() -> None:
    """A gateway, or the server of a test, has their paths."""
    vertex = "/v1/projects/me/locations/eu/publishers/google/models/g:generateContent"

    assert {"vertex"} == find_clouds([("vertex/eu", "/v1/models"), ("openai", "/v1/chat/completions")])
    assert {"vertex", "azure"} == find_clouds([("local", vertex), ("local", "/openai/deployments/gpt/embeddings")])
    assert set() == find_clouds([("gemini", "/v1beta/models/g:generateContent")])


def test_credentials_of_google_are_always_those_of_the_package() -> None:
    """Whatever was set: a test does not read the real ones. The project is kept."""
    theirs = {"GOOGLE_APPLICATION_CREDENTIALS": "/home/a/key.json", "GOOGLE_CLOUD_PROJECT": "mine"}

    during = RecordedVariables(clouds=["vertex"]).restore(theirs)

    assert {**theirs, "GOOGLE_APPLICATION_CREDENTIALS": GOOGLE_CREDENTIALS_FILE} == during
    assert during == RecordedVariables().restore(theirs) | {"GOOGLE_CLOUD_PROJECT": "mine"}
    assert {"type", "client_id", "client_secret", "refresh_token"} <= json.loads(
        Path(GOOGLE_CREDENTIALS_FILE).read_text()
    ).keys()


def test_variables_are_set_only_for_the_clouds_that_answered() -> None:
    """And those of Azure only where no key is set."""
    assert {} == make_cloud_variables({"HOME": "/home/a"}, [])
    assert make_cloud_variables({}, ["azure"]).keys() == AZURE
    assert {} == make_cloud_variables({"AZURE_OPENAI_API_KEY": "k"}, ["azure"])
    assert make_cloud_variables({"AZURE_TENANT_ID": "t"}, ["azure"]).keys() == AZURE - {"AZURE_TENANT_ID"}
    assert {"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"} == make_cloud_variables({}, ["vertex"]).keys()
