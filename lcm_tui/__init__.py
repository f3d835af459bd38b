"""lcm-tui: the terminal app and the command line over `lcm_core`."""
