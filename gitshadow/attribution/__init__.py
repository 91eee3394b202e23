"""Who wrote: windows of tool calls, the ladder, and evidence from processes."""
