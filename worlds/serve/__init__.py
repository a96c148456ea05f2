"""A world model served as an environment: the application, its sessions, its log, its clients and what it costs."""
