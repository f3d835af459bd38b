"""lcm_tui.flows"""
