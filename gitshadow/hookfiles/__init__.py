"""What stands in agents' settings files because of us: shown, merged, taken out again.

Invariant: nothing here reads the environment, prints, or changes a file that was not shown.
"""
