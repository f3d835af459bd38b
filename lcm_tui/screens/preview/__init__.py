"""The preview of a change, which applies it."""
