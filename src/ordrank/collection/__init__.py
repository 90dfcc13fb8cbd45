"""Collections of graded pictures on disk: imported, trained, searched, graded, evaluated and exported."""
