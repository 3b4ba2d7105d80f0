"""What changed between two calls, and what kind of change it is. Pure.

Import from the module that holds the name. This file imports nothing, because a replay needs `compared_call` and
`json_diff` (4 ms), and only a run with a finding needs `comparison` (20 ms).
"""
