"""The stages of a run over Beam or local processes: plan, normalize, judge, mix and publish, with their foundations."""
