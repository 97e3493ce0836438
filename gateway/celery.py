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

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

# In a container everything runs as root. What root makes dangerous is pickle, and the worker takes JSON alone.
warnings.filterwarnings("ignore", category=SecurityWarning)


def set_up_log(**_: object) -> None:
    """The worker's log has the form of all programs: Celery leaves logging to whoever answers its signal."""
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)


setup_logging.connect(set_up_log)


def begin_worker(**_: object) -> None:
    """Its database, results and logs are its user's alone."""
    logs.keep_private()


celeryd_init.connect(begin_worker)


def refuse_nonsense() -> None:
    """End the worker, which reads its settings here first, with one line that names the setting."""
    try:
        settings.INSTALLED_APPS  # noqa: B018
    except ImproperlyConfigured as error:
        logs.configure()
        logging.getLogger("worker").critical("cannot start: %s", error)
        sys.exit(os.EX_CONFIG)


refuse_nonsense()
app = Celery("magnetar")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
