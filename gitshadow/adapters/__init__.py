"""What each agent's hooks send, read into one record; nothing here does I/O.

A new agent is one module with one class that meets `base.Adapter`, and one line in `registry`.
"""
