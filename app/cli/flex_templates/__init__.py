"""Flex Templates of Dataflow: what they are asked for, how they are built and launched, and what a launcher does."""
