"""Text in, draft out: what a summary was made from as text, who summarises it, and what is accepted."""
