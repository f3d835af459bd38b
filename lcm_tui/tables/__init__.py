"""lcm_tui.tables"""
