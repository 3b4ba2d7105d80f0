"""A folder of dated reports in the state folder of a project, so that runs can be compared later.

`<folder>/<time>-<random>.json`, never committed. In: redacted reports. Out: the same, newest first. Never: keeps
more than its limit, or follows a link.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from traceforge.canon import JSONObject, json_bytes, parse_json
from traceforge.clock import now_text
from traceforge.errors import CannotRead, NotFound, NotJSON
from traceforge.files import list_folder, make_private_folder, read_file, write_atomic

_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z-[0-9a-f]{8}\Z")
_SUFFIX = ".json"
_MODE = 0o600  # A report quotes answers.


class NewestReports(NamedTuple):
    """The newest reports by name, and why others cannot be read."""

    reports: list[tuple[str, JSONObject]]
    unreadable: list[str]


class ReportFolder(NamedTuple):
    """One kind of reports: its folder in the project, how many are kept, what it is called, and what makes one."""

    folder: str
    reports_max: int
    noun: str
    command: str

    def store(self, project: str, report: JSONObject) -> str:
        """Store a report with the time; returns its name.

        Raises:
            CannotWrite: the disk is full, or we have no permission.
        """
        at = now_text()
        name = f"{re.sub('[:.]', '-', at)}-{os.urandom(4).hex()}"
        make_private_folder(os.path.join(project, self.folder))
        write_atomic(self._path(project, name), json_bytes({"at": at, **report}), mode=_MODE)
        for old in self.list_names(project)[self.reports_max :]:
            with suppress(FileNotFoundError):  # Another process removed it.
                os.unlink(self._path(project, old))
        return name

    def list_names(self, project: str) -> list[str]:
        """The names of the reports, newest first; empty if none was stored."""
        folder = os.path.join(project, self.folder)
        if not os.path.isdir(folder):
            return []
        names = [entry.name.removesuffix(_SUFFIX) for entry in list_folder(folder) if entry.name.endswith(_SUFFIX)]
        return [name for name in reversed(names) if _NAME.match(name)]

    def read(self, project: str, name: str) -> JSONObject:
        """A report by its name.

        Raises:
            NotFound: no report has this name.
            CannotRead: it cannot be read, or is not a report.
        """
        path = self._path(project, name)
        if not _NAME.match(name) or not os.path.lexists(path):
            raise NotFound(f"there is no {self.noun} of this name", hint=f"Run a check: {self.command}")
        try:
            report = parse_json(read_file(path, follow_links=False))
        except NotJSON as exc:
            raise CannotRead(path, f"not a report of a {self.noun}: {exc.message}", hint="Delete the file.") from None
        if not isinstance(report, dict):
            raise CannotRead(path, f"not a report of a {self.noun}", hint="Delete the file.")
        return report

    def read_newest(self, project: str, reports_max: int) -> NewestReports:
        """The newest reports. One that cannot be read is named, one that was removed meanwhile is left out."""
        reports: list[tuple[str, JSONObject]] = []
        unreadable: list[str] = []
        for name in self.list_names(project)[:reports_max]:
            try:
                reports.append((name, self.read(project, name)))
            except CannotRead as exc:
                unreadable.append(exc.message)
            except NotFound:  # A run that just ended has removed it.
                continue
        return NewestReports(reports, unreadable)

    def _path(self, project: str, name: str) -> str:
        return os.path.join(project, self.folder, name + _SUFFIX)
