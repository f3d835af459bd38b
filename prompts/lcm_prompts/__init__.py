"""The prompts that lcm-tui sends to a model when it summarises."""
