"""What is done with a change, with drafts, a compaction and a focus brief."""
