"""What stands over a screen until it is answered or left."""
