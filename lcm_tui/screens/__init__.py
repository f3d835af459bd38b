"""A file a screen: what it reads, its panes, and the screen that composes them."""
