"""Undo: choose a unit, plan its undo, apply it, and report the result."""
