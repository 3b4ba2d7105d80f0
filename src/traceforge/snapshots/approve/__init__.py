"""From pending changes to committed snapshots."""
