"""What any page about a run's folder, or about a raw log, needs: reading it lazily, and its parts as HTML. No HTTP."""
