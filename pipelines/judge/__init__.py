"""The judge stage: every transition is measured once, and a verdict is written beside it.

Each decision over the whole corpus has its own module and is independent of the others. `judge` runs them in order.
"""
