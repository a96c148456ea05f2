"""Publication of a dataset folder on the Hub: the checks before, and the upload."""
