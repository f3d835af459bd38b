"""lcm_tui.cli"""
