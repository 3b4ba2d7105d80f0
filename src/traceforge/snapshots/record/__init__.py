"""From the calls of a run, or of imported cassettes, to pending changes."""
