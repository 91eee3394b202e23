"""The terminal view: what happened in this worktree, to look at and to undo in.

Invariant: everything shown comes from the JSON documents of the engine's verbs, and every change
goes through a plan that was shown; only this room imports textual.
"""
