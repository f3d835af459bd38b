"""lcm_tui.kit"""
