"""Labelling by people: what to label next, comparisons of two samples, and several graders."""
