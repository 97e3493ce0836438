"""The Celery application; tasks are found in the Django apps' ``tasks`` modules."""

import os
import warnings

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import setup_logging
from django.conf import settings
from django.utils.log import configure_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# In a container everything runs as root. What root makes dangerous is pickle, and the worker takes JSON alone.
warnings.filterwarnings("ignore", category=SecurityWarning)


def set_up_log(**_: object) -> None:
    """The worker's log has the form of all programs: Celery leaves logging to whoever answers its signal."""
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)


setup_logging.connect(set_up_log)


app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
