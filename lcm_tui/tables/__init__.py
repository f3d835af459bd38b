"""Values of the core as tables, lines and texts. They read nothing and need no terminal."""
