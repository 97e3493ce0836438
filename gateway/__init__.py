"""The Django project: admin REST, console API, live sockets, Celery; turns HTTP into engine calls."""
