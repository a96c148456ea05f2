"""Stage 3, judge: every transition is measured once, and a verdict is written beside it.

Each decision over the whole corpus has a file of its own and knows of no other; `judge` puts them in order.
"""
