"""The object and ref store of a repository: through libgit2, or through Git's own plumbing."""
