"""The prompt compiler: which blocks a model sees, in which order, and the digest of that order.

A revision (`pc_1`, `pc_2`) is pure and never changes once it is released: a snapshot names the revision it was
compiled by, and compiles again to the same digest for ever. Another order is another revision.
"""
