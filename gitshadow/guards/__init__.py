"""Alerts about what agents do; see ARCHITECTURE.md."""
