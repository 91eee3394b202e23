"""The terminal UI: browse the history of a worktree, and undo from there.

Invariant: everything shown comes from the JSON documents of the verbs, and every change is made
by a plan that was shown; only this package imports textual.
"""
