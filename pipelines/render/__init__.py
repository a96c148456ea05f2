"""Rendering: judged transitions as the texts that models are trained on; pure, nothing here reads or writes."""
