"""The native client in C, and what compiles it for a wheel; nothing of it is ever imported."""
