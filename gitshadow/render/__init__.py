"""Text and JSON printers of the answers of verbs.

Invariant: nothing here asks the engine, reads configuration or decides an exit code.
"""
