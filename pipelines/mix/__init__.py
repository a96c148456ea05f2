"""Stage 4, mix: what judging kept becomes samples, and samples become shards of disjoint pools."""
