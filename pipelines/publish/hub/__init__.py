"""A dataset folder on the Hub: what of it may go there, and what is sent."""
