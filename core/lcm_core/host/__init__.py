"""The sessions of the host, of either era: what there is, and a page of what was said in one of them."""
