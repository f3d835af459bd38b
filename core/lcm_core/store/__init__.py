"""Reading: the only place with SQL that reads."""
