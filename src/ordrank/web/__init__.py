"""The web page of a collection and its HTTP API."""
