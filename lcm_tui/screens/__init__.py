"""One screen a file: each asks core for records and shows them."""
