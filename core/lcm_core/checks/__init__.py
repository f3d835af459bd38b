"""The checks of a database, in files by what they read, and how they are run."""
