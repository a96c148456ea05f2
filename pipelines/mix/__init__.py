"""The mix stage: kept trajectories become samples, and samples become shards of disjoint pools."""
