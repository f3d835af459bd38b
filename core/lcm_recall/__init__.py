"""lcm_recall"""
