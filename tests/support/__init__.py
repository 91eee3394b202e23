"""The test kit: repositories, the installed command and an agent, as sentences."""
