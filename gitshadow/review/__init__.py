"""What `check` demands of a change, and what comes of it: pure, facts in, findings out."""
