"""Browser logs: network recordings, traces, page recordings and the runs of agents that drive a browser."""
