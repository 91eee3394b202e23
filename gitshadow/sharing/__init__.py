"""Push, fetch and mirrors: recorded history between copies of a repository."""
