"""PostgreSQL: rows as messages and messages as rows."""
