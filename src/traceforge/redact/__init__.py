"""Redaction: secrets and personal data are replaced before anything is stored or matched. Pure.

Import from the module that holds the name. This file imports nothing, because most commands need `redactions` (1 ms),
and only those that meet a call need `redactor` (20 ms; google-re2 is imported with the first text that it scans).
"""
