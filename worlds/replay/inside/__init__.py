"""What runs inside a box, and nowhere else: it imports nothing of ours, and is handed over as source."""
