"""Text and JSON printers of the documents that the engine hands back.

Invariant: nothing here asks the engine, reads configuration or decides an exit code.
"""
