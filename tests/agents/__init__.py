"""Real agent programs, driven without a person against a scripted model server."""
