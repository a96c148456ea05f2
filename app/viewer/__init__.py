"""The page that `trajmill view` serves on this machine: what of `looking` stands at which address, and who may ask."""
