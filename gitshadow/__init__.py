"""Undo and provenance for AI coding agents, inside Git.

Invariant: importing this package loads nothing else, so that the hook program starts fast.
"""

__version__ = "0.1.0"
