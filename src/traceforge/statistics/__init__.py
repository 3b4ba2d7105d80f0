"""How sure a statement about a rate or a measure is. Pure arithmetic: no I/O, no clock, no random numbers.

`pass_rate` judges one rate while runs come in, `rate_comparison` and `measure_comparison` compare two sets of runs.
Import from the module that holds the name.
"""
