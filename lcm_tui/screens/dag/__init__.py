"""The summary DAG of a conversation, as a tree that unfolds, with what the selected row says beside it."""
