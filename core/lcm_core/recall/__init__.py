"""Recall: the memory is asked. As the engine asks it (its four tools), and in ways of our own.

Source: docs/engine/recall.md.
"""
