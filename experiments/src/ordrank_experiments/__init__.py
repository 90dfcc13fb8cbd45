"""The paper re-run, a comparison with other packages, and a demonstration."""
