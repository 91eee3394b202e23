"""From the disk to snapshots: coverage, walk, reconcile, drafts, chains, recorder."""
