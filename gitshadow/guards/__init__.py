"""Alerts about what agents do; see docs/internals.md."""
