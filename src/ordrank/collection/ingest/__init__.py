"""List picture files, read grades from CSV files, and decode pictures and extract their features in processes."""
