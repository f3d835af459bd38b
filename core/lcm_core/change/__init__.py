"""Changing an operator's database: plans, the one way to commit them, and the journal that undoes them."""
