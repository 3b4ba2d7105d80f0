"""Packs: folders of evidence about one run."""
