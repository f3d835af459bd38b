"""lcm_core.writers"""
