"""TraceForge: version control for AI behaviour."""

__version__ = "0.1.0"

__all__ = ["__version__"]
