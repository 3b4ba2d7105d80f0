"""The snapshot tree on disk: checked, listed, loaded, migrated, and replayed from."""
