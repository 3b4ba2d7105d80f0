"""Where the context store keeps what it knows: the database, and the keys that stand outside of it."""
