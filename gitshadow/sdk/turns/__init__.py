"""Turns: undo for what an agent program does outside the file tree.

A core without I/O (`calls`, `turn`, `saga`, `turn_states`) yields what is to be done next; two thin
fronts (`session`, `async_session`) do it. Invariant: both fronts run the same procedures.
"""
