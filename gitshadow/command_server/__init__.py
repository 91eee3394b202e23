"""A process that has imported every verb and forks for each command."""
