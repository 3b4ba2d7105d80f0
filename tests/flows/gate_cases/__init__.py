"""The cases of `test_gate_matrix.py`, by what they change."""
