"""The migrations: each file in `versions` is one step, never changed once it is released."""
