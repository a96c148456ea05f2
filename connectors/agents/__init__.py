"""Session logs of command line agents and of the harnesses that run them."""
