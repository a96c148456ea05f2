"""The worth of curation to a language model, measured on one GPU in a quarter of an hour."""
