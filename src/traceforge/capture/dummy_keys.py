"""Dummy keys in this process, for as long as a suite runs in it.

In: the names of the key variables that were set while the suite was recorded. Out: an environment in which these are
set, none of them real, and no others; afterwards the one that was there. Never: undoes what the suite itself has set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping

from traceforge.capture.run.environment import KEY_VARIABLES, with_dummy_keys

Values = Mapping[str, str | None]  # None: it is not set


class DummyKeys:
    """What stands in for the keys of an environment. Without `names` nothing is known, and nothing is changed."""

    def __init__(self, environ: MutableMapping[str, str], names: Collection[str]) -> None:
        self._environ = environ
        replacement = with_dummy_keys(environ, names) if names else {**environ}
        changed = [name for name in KEY_VARIABLES if environ.get(name) != replacement.get(name)]
        self._dummies: Values = {name: replacement.get(name) for name in changed}
        self._originals: Values = {name: environ.get(name) for name in changed}
        self._is_installed = False

    def install(self) -> None:
        """From now on. A second time changes nothing."""
        if not self._is_installed:
            self._is_installed = True
            self._swap(self._originals, self._dummies)

    def remove(self) -> None:
        """No longer; they can be put again."""
        if self._is_installed:
            self._is_installed = False
            self._swap(self._dummies, self._originals)

    def _swap(self, before: Values, after: Values) -> None:
        for name, value in after.items():
            if self._environ.get(name) != before[name]:
                continue  # the suite has set another
            if value is None:
                del self._environ[name]
            else:
                self._environ[name] = value
