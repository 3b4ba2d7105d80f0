"""What clients get in a replay when they exchange credentials for a token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from google.auth import compute_engine, default
from google.auth.transport.requests import Request

import traceforge
from traceforge.capture.hook.token_exchange import DUMMY_PROJECT, DUMMY_TOKEN, answer_token_exchange
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.run.cloud_credentials import make_cloud_variables
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


def empty_player() -> Player:
    return Player(RequestKeyer(None, VolatileRules()), Library(()))


def read_answer(url: str) -> Any:
    response = answer_token_exchange(url)
    return json.loads(b"".join(data for _, data in response.chunks))


def test_default_credentials_of_google_are_found_and_exchanged_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that has none: the client of today gets a token, nothing is sent, nothing is counted."""
    for name, value in make_cloud_variables({}, ["vertex"]).items():
        monkeypatch.setenv(name, value)
    player = empty_player()

    with traceforge.replay(player=player):
        credentials, project = default(scopes=SCOPES)
        credentials.refresh(Request())

    assert (DUMMY_TOKEN, DUMMY_PROJECT, True) == (credentials.token, project, credentials.valid)
    assert [] == player.unmatched


def test_the_metadata_server_of_google_is_answered() -> None:
    """For code that names these credentials itself."""
    with traceforge.replay(player=empty_player()):
        credentials = compute_engine.Credentials()
        credentials.refresh(Request())

    assert DUMMY_TOKEN == credentials.token


def test_an_exchange_in_a_recording_goes_on_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed through, and leaves no trace."""
    sent: list[str] = []
    monkeypatch.setattr(
        requests.adapters.HTTPAdapter,
        "send",
        lambda _self, request, **_: sent.append(request.url) or requests.Response(),
    )

    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        requests.post("https://oauth2.googleapis.com/token", data={"refresh_token": "secret"}, timeout=9)

    assert ["https://oauth2.googleapis.com/token"] == sent
    assert [] == list(sink.exchanges)


def test_entra_is_answered() -> None:
    """What MSAL asks before it asks for a token, and the token."""
    tenant = "https://login.microsoftonline.com/my-tenant"

    assert (
        f"{tenant}/oauth2/v2.0/token"
        == read_answer(f"{tenant}/v2.0/.well-known/openid-configuration")["token_endpoint"]
    )
    assert "metadata" in read_answer("https://login.microsoftonline.com/common/discovery/instance?api-version=1.1")
    assert DUMMY_TOKEN == read_answer(f"{tenant}/oauth2/v2.0/token")["access_token"]
    assert read_answer("http://169.254.169.254/metadata/identity/oauth2/token")["expires_on"].isdigit()


def test_an_impersonated_account_gets_a_token() -> None:
    """It has names of its own for what it gets."""
    account = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.c:generateAccessToken"

    assert {"accessToken": DUMMY_TOKEN, "expireTime": "2100-01-01T00:00:00Z"} == read_answer(account)


def test_every_client_that_is_hooked_gets_the_token() -> None:
    """Sync and async: azure-identity uses requests and aiohttp, others httpx. Nothing is counted."""
    url = "https://login.microsoftonline.com/my-tenant/oauth2/v2.0/token"
    form = {"grant_type": "client_credentials", "client_secret": "traceforge-test-dummy"}
    player = empty_player()

    async def ask() -> list[Any]:
        async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
            first = await response.json()
        async with httpx.AsyncClient() as client:
            return [first, (await client.post(url, data=form)).json()]

    with traceforge.replay(player=player):
        answers = asyncio.run(ask())
        answers += [client.post(url, data=form, timeout=9).json() for client in (httpx, requests)]

    assert [DUMMY_TOKEN] * 4 == [answer["access_token"] for answer in answers]
    assert [] == player.unmatched
