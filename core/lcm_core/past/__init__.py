"""A conversation as it was: what the journal takes back, read through the same queries (docs/past.md).

`point` names a moment, `rebuild` works out the rows of then (pure), `reading` finds what that needs, and
`overlay` lays the earlier rows over the present ones for one connection.
"""
