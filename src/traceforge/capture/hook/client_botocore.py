"""The hook for the credentials of botocore, whose calls `client_urllib3` sees.

In: its modules, and those of aiobotocore. Out: in a replay, placeholders instead of credentials that would be looked
for in profiles, roles, tokens, or at the metadata service of a machine. Never: changes anything where a real key is
set, or where calls may go to AWS; takes part in a call. A version
without these methods is left alone.

    CredentialResolver.load_credentials        the first that is found; AioCredentialResolver: its async twin
    Session.get_scoped_config                  the profile that code or a variable names, which must exist
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from . import dispatch
from .patches import Patches
from .token_exchange import AWS_KEY_VARIABLE, DUMMY_AWS_KEY


def hook_credentials(module: Any, patches: Patches) -> None:
    resolver, credentials = getattr(module, "CredentialResolver", None), getattr(module, "Credentials", None)
    if hasattr(resolver, "load_credentials"):
        patches.wrap(resolver, "load_credentials", lambda load: _wrap_load(load, credentials))


def hook_async_credentials(module: Any, patches: Patches) -> None:
    resolver, credentials = getattr(module, "AioCredentialResolver", None), getattr(module, "AioCredentials", None)
    if "load_credentials" in vars(resolver or object):
        patches.wrap(resolver, "load_credentials", lambda load: _wrap_async_load(load, credentials))


def hook_session(module: Any, patches: Patches) -> None:
    missing = import_module("botocore.exceptions").ProfileNotFound
    if hasattr(module.Session, "get_scoped_config"):
        patches.wrap(module.Session, "get_scoped_config", lambda find: _wrap_scoped_config(find, missing))


def _has_placeholder() -> bool:
    """Whether the key in the environment is that of a test: then no other one is looked for."""
    return os.environ.get(AWS_KEY_VARIABLE) == DUMMY_AWS_KEY and dispatch.is_replaying()


def _wrap_load(load: Any, credentials: Any) -> Any:
    def watched(self: Any) -> Any:
        if _has_placeholder():
            return credentials(DUMMY_AWS_KEY, DUMMY_AWS_KEY)
        loaded = load(self)
        return credentials(DUMMY_AWS_KEY, DUMMY_AWS_KEY) if loaded is None and dispatch.is_strict_replay() else loaded

    return watched


def _wrap_async_load(load: Any, credentials: Any) -> Any:
    async def watched(self: Any) -> Any:
        if _has_placeholder():
            return credentials(DUMMY_AWS_KEY, DUMMY_AWS_KEY)
        loaded = await load(self)
        return credentials(DUMMY_AWS_KEY, DUMMY_AWS_KEY) if loaded is None and dispatch.is_strict_replay() else loaded

    return watched


def _wrap_scoped_config(find: Any, missing: type[BaseException]) -> Any:
    def watched(self: Any) -> Any:
        try:
            return find(self)
        except missing:
            if _has_placeholder():
                return {}
            raise

    return watched
