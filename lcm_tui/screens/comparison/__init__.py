"""Two contexts beside each other: what one sends and the other does not, line by line."""
