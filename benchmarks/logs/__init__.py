"""Made logs, documents and rollouts for measurements without real logs; the same seed gives the same bytes."""
