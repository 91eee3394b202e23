"""An opened worktree in this process: what the daemon serves, and what runs without one."""
