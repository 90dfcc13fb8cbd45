"""The page of a collection and the interface behind it, over HTTP."""
