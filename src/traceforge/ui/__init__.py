"""The web view: pages over everything that TraceForge stores, for a browser on the same machine."""
