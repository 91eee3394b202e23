"""What a request names: sessions, turns, calls, commits, moments, and rows for the answer."""
