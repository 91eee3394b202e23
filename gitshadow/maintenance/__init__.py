"""Set up, check, repair, pack, prune, purge and remove what gitshadow stores."""
