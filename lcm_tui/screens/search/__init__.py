"""Search everywhere: as you type, in every text of the database."""
