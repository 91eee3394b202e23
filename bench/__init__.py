"""The benchmarks of the budgets, one command: `python -m bench`."""
