"""The Celery application; tasks are found in the Django apps' ``tasks`` modules."""

import logging
import os
import sys
import warnings

from celery import Celery
from celery.platforms import SecurityWarning
from celery.signals import celeryd_init, setup_logging
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.log import configure_logging

from engine.base import log as logs

SEMAPHORES = "/dev/shm"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# In a container everything runs as root. What root makes dangerous is pickle, and the worker takes JSON alone.
warnings.filterwarnings("ignore", category=SecurityWarning)


def set_up_log(**_: object) -> None:
    """The worker's log has the form of all programs: Celery leaves logging to whoever answers its signal."""
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)


setup_logging.connect(set_up_log)


def begin_worker(**_: object) -> None:
    """Have its files be its user's alone; end it where no process of its pool could start."""
    logs.keep_private()
    if not os.access(SEMAPHORES, os.W_OK):
        refuse(f"{SEMAPHORES} cannot be written, where the semaphores of Celery's processes lie")


celeryd_init.connect(begin_worker)


def refuse_nonsense() -> None:
    """End the worker, which reads its settings here first, with one line that names the setting."""
    try:
        settings.INSTALLED_APPS  # noqa: B018
    except ImproperlyConfigured as error:
        refuse(str(error))


def refuse(why: str) -> None:
    """End the worker for good: trying again will not help."""
    logs.configure()
    logging.getLogger("worker").critical("cannot start: %s", why)
    sys.exit(os.EX_CONFIG)


refuse_nonsense()
app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
