"""The Django project: Pulsar's REST and WebSocket interfaces, the console's API and live sockets, and Celery tasks."""
