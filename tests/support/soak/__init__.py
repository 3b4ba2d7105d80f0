"""Load that lasts, with random faults: the parts of the product, what each promised, and what became of it."""
