"""Forgetting: what a run read is taken out of all that it and later generations wrote."""
