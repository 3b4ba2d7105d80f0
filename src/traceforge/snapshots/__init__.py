"""Approved behaviour: the snapshot format, its manifest and its checks."""
