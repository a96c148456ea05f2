"""Common text tree for all screens, its construction from the DOM of a page, and the steps between screens.

For other screens, connectors select the nodes of the tree.
"""
