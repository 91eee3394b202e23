"""Undo: choose a unit, plan what comes back, apply it, and report what is true then."""
