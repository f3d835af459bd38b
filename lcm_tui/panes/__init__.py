"""Parts of a screen that know what they show: lists that filter, texts that are searched."""
