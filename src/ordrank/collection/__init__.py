"""A collection of graded pictures on disk: kept, searched and graded."""
