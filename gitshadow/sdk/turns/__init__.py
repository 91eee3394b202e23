"""Turns: undo for what an agent program does outside the file tree.

A core without I/O (`calls`, `unit`, `unwind`, `machine`) says what is to be done next, two thin
fronts (`session`, `aio`) do it. Invariant: both fronts run the same procedures.
"""
