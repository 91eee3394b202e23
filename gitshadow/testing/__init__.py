"""What agent programs test themselves with: their inverses, their plugged-in parts."""
