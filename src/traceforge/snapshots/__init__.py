"""Approved behaviour. The rooms, each of which imports only those before it:

formats (files), tree (the folder of them), record (a run to pending changes), approve, gate (`test`), live.
"""
