"""Talking to the daemon; nothing here imports anything heavy."""
