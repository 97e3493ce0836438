"""The Celery application. Tasks are in the ``tasks`` modules of Django's apps."""

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

# In a container all processes run as root. Celery warns because of pickle, but the worker accepts only JSON.
warnings.filterwarnings("ignore", category=SecurityWarning)


def set_up_log(**_: object) -> None:
    """Configure the worker's log as in all programs; Celery configures none when its signal has a receiver."""
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)


setup_logging.connect(set_up_log)


def begin_worker(**_: object) -> None:
    """Make the worker's files private to its user; end the worker where no process of its pool could start."""
    logs.keep_private()
    if not os.access(SEMAPHORES, os.W_OK):
        refuse(f"{SEMAPHORES} cannot be written, where the semaphores of Celery's processes lie")


celeryd_init.connect(begin_worker)


def check_settings() -> None:
    """Read the settings for the first time; end the worker with one line that names an invalid one."""
    try:
        settings.INSTALLED_APPS  # noqa: B018
    except ImproperlyConfigured as error:
        refuse(str(error))


def refuse(reason: str) -> None:
    """End the worker with the exit code after which the supervisor does not restart it."""
    logs.configure()
    logging.getLogger("worker").critical("cannot start: %s", reason)
    sys.exit(os.EX_CONFIG)


check_settings()
app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
