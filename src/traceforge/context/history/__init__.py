"""Sessions, branches, events, merges, artifacts and bundles: what happened, in tables."""
