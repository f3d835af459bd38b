"""lcm_host"""
