"""One opened worktree and the verbs it answers, in the daemon and without it."""
