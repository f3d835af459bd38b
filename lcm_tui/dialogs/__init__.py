"""Questions and texts over a screen."""
