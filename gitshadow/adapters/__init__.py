"""What each agent's hooks send, read into one record; nothing here does I/O.

A new agent is a row of `registry._TRAITS` and a module with a `parse`, or a shape in `plain`.
"""
