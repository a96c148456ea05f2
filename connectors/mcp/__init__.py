"""Traffic of the Model Context Protocol, as recorders, proxies and cassettes keep it."""
