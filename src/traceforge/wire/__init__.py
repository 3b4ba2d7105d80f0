"""What a provider's bytes mean: pure functions, one module a dialect, no I/O."""
