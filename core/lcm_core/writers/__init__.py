"""Who writes a summary: models and the offline writer, prompts, keys, cost, what a draft kept."""
