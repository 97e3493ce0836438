"""The console's database: SQLite, a file, or PostgreSQL."""
