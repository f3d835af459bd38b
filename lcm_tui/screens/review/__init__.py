"""The review of a summary's drafts: what changes, what is lost, and what is put in its place."""
