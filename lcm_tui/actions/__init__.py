"""What several screens offer in the same way: the `Action`s of a screen that has what they act on."""
