"""The Celery application; tasks are found in the Django apps' ``tasks`` modules."""

import os
import warnings

from celery import Celery
from celery.platforms import SecurityWarning

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# In a container everything runs as root. What root makes dangerous is pickle, and the worker takes JSON alone.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
