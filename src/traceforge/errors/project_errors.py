"""Errors about the configuration, the installation and pending changes of a project: TF4xx and TF7xx."""

from __future__ import annotations

from traceforge.distribution import install_command
from traceforge.errors.base import TraceForgeError
from traceforge.findings import Finding


class InvalidConfig(TraceForgeError):
    """The configuration has an unknown key or a value that is not allowed."""

    code = "TF401"

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        more = f" (and {len(findings) - 1} more: traceforge config check)" if len(findings) > 1 else ""
        super().__init__(f"{first.file}: {first.message}{more}", hint=first.hint)
        self.findings = findings


class MissingExtra(TraceForgeError):
    """A command needs a package that the base install does not bring."""

    code = "TF402"

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message, hint=install_command(extra))


class ForeignPackage(TraceForgeError):
    """`import traceforge` gives another project of that name, or a mixture of both."""

    code = "TF404"


class UnusableDialect(TraceForgeError):
    """A dialect that an installed package brings cannot be used."""

    code = "TF405"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Repair or uninstall the package that names it as an entry point.")


class UntrustedProject(TraceForgeError):
    """A file that configures the project belongs to another user."""

    code = "TF403"


class CannotApprove(TraceForgeError):
    """A pending change cannot become a snapshot."""

    code = "TF701"
