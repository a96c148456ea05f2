"""Patches applied to local repositories, and the transitions that follow from them."""
