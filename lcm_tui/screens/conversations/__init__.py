"""The first screen: the conversations of a database, and sessions on disk that it does not know."""
