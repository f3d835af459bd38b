"""A focus brief on its way: the sweep before it, its text, and its preview."""
