"""Approved requests sent to the provider again: does the model still answer the same?"""
