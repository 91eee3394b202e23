"""Engines and agent frameworks that work with turns; each module needs its extra.

Invariant: nothing below imports from here, and a module imports only its own framework.
"""
