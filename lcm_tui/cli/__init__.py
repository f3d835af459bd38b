"""The command line: `commands` declares, the other modules do the work and print."""
