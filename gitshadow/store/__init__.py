"""Objects, refs, files, locks and the journal: each behind its one door."""
