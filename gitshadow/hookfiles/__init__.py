"""The entries of gitshadow in agents' settings files and Git's hooks: shown, merged, removed.

Invariant: nothing here reads the environment, prints, or changes a file that was not shown.
"""
