"""Search, expansion and questions over the memory; the engine's four tools and their grants."""
