"""Approved behaviour. The rooms, each of which imports only those before it:

formats (files), tree (the folder of them), record (a run to pending changes), approve, gate (`test`), live.

Two imports are deferred, because a passing run of the pytest plugin does not need them and they are 5 % of its start:
`tree_transaction` in `state_folder` (after an interrupted approval) and `approval_signing` in `approval_check`
(for signed approvals), with `subprocess`, `getpass` and the file locks that they import.
"""
