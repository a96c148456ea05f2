"""Web viewer that `trajmill view` serves on this machine: its addresses, its pages and its access token."""
