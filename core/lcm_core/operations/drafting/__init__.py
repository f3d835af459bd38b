"""Drafts of summaries: made without a lock, kept, compared, and committed one by one.

`draft` reads what a draft is made from and asks for it, `items` and `batch` are the queue, `saved` the file
that survives a crash, `rules` what a batch may accept by itself.
"""
