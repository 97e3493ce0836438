"""The Celery application; tasks are found in the Django apps' ``tasks`` modules."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
