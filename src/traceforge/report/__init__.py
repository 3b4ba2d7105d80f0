"""Turn results into text: lines for a terminal, and reports for CI services."""
