"""Where botocore looks for keys in a replay. `tests/flows/test_bedrock.py` has its real modules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from traceforge.capture.hook import client_botocore, dispatch
from traceforge.capture.hook.patches import Patches
from traceforge.capture.hook.token_exchange import AWS_KEY_VARIABLE, DUMMY_AWS_KEY
from traceforge.capture.hook.watcher import Watcher


class Credentials(NamedTuple):
    """A key, as botocore has it."""

    access_key: str
    secret_key: str


REAL = Credentials("AKIAY3TZQ5MVXW2BNHRD", "secret")
TEST = Credentials(DUMMY_AWS_KEY, DUMMY_AWS_KEY)


class StrictWatcher(Watcher):
    """Answers every call itself."""

    replays = is_strict = True


@pytest.fixture
def patches() -> Iterator[Patches]:
    """Patches that are undone."""
    patches = Patches()
    yield patches
    patches.undo()


@pytest.fixture
def replaying() -> Iterator[None]:
    """A replay of this process."""
    subscription = dispatch.Subscription(StrictWatcher(), process_wide=True)
    dispatch.subscribe(subscription)
    yield
    dispatch.unsubscribe(subscription)


def load(found: Credentials | None, patches: Patches) -> Any:
    """What both chains give that find this."""

    class Resolver:
        def load_credentials(self) -> Credentials | None:
            return found

    class AioResolver:
        async def load_credentials(self) -> Credentials | None:
            return found

    client_botocore.hook_credentials(SimpleNamespace(CredentialResolver=Resolver, Credentials=Credentials), patches)
    client_botocore.hook_async_credentials(
        SimpleNamespace(AioCredentialResolver=AioResolver, AioCredentials=Credentials), patches
    )
    result = Resolver().load_credentials()
    assert result == asyncio.run(AioResolver().load_credentials())
    return result


def test_no_key_is_looked_for_where_a_test_has_set_one(
    replaying: None, patches: Patches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of a profile: the chain would read files, and ask other machines."""
    monkeypatch.setenv(AWS_KEY_VARIABLE, DUMMY_AWS_KEY)

    assert TEST == load(REAL, patches)


def test_a_replay_in_process_signs_where_there_is_no_key(
    replaying: None, patches: Patches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key, it is used: other services of AWS may be asked in the same context."""
    monkeypatch.delenv(AWS_KEY_VARIABLE, raising=False)

    assert (TEST, REAL) == (load(None, patches), load(REAL, patches))


def test_nothing_changes_where_calls_are_recorded(patches: Patches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if somebody uses the placeholder as a key."""
    monkeypatch.setenv(AWS_KEY_VARIABLE, DUMMY_AWS_KEY)

    assert (None, REAL) == (load(None, patches), load(REAL, patches))


def test_versions_without_these_methods_are_left_alone(patches: Patches) -> None:
    client_botocore.hook_credentials(SimpleNamespace(), patches)
    client_botocore.hook_async_credentials(SimpleNamespace(), patches)
