"""lcm_core.engine"""
