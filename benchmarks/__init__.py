"""Measurements: every number in the docs comes from a script in this folder, and its result lies in `results/`."""
