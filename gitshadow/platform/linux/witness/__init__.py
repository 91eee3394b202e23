"""What the kernel reports about writes: which process made them, and who started it."""
