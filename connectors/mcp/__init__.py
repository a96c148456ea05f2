"""Model Context Protocol on the wire, as recorders, proxies and cassettes keep it."""
