"""A world model served as an environment: the application, its sessions, its log and its clients."""
