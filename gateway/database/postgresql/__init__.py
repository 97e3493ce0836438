"""Django's backend for PostgreSQL, for threads that keep their connection."""
