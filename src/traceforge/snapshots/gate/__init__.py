"""Runs against approved snapshots: a command (`record`, `test`) or a pytest suite."""
