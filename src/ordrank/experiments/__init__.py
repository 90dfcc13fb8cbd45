"""Experiments: the demonstration and the paper's formulas written out as a reference."""
