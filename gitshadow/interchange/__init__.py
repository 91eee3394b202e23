"""Exchange: what others write about who wrote which line, and our events as lines of JSON."""
