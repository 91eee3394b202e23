"""Reports for people: a session's page, patches, notices, the shell prompt, completion."""
