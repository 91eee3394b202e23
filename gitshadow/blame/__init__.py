"""Blame: who wrote each line of a file, from what was recorded, then from Git."""
