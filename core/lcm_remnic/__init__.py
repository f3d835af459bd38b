"""lcm_remnic"""
