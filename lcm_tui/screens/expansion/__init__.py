"""What lies below a summary, level by level, with the tokens that each level costs."""
