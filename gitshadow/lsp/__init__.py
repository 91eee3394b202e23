"""A language server: who wrote each line, and undo, in any editor that speaks the protocol."""
