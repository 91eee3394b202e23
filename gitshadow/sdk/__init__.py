"""Undo for agent programs: turns, sagas, frameworks, and kits to test them with."""
