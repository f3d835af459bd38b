"""lcm_core.base"""
