"""Who writes summaries: a provider each, and the extractive writer, which needs none."""
