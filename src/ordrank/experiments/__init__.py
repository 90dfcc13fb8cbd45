"""Experiments: the demonstration, and the paper re-run."""
