"""The daemon of one worktree: watcher, socket and engine on one loop."""
