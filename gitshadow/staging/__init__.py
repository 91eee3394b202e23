"""Put what one turn, call or session changed into the index, a commit or another worktree."""
