"""Django's settings. Those that may be set from outside are in ``gateway.environment``."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from django.utils.functional import SimpleLazyObject

from engine.base.disk.secret_files import read_secret
from gateway import secret_key
from gateway.environment import load

BASE_DIR = Path(__file__).resolve().parent.parent
_LOADED = load()
ENVIRONMENT = replace(_LOADED.environment, data_dir=_LOADED.environment.data_dir.absolute())

VERSION = "0.1.0"
PULSAR_VERSION = "4.0.8"
"""The release of Apache Pulsar whose interfaces are served; Pulsar's tools request and compare it."""
DEBUG = False
# Read at its first use, so that importing the settings (type checker, tests) creates no file.
SECRET_KEY = cast(
    str,
    SimpleLazyObject(
        lambda: (
            read_secret(ENVIRONMENT.secret_key, "secret_key")
            or secret_key.read_or_create(ENVIRONMENT.data_dir)
        )
    ),
)
CLUSTERS = ENVIRONMENT.served(_LOADED.metadata.stores, _LOADED.metadata.access)
ALLOWED_HOSTS = ENVIRONMENT.hosts
MCP_ENABLED = ENVIRONMENT.mcp_enabled
ALLOWED_ORIGINS = frozenset(ENVIRONMENT.origins)
TRUSTED_PROXIES = ENVIRONMENT.proxies
TENANT_LIMITS = _LOADED.tenants
BROKER_CLIENT = _LOADED.broker_client
IDENTITY = _LOADED.identity
TLS = _LOADED.tls
REACH = _LOADED.reach
REDIS = _LOADED.redis
SIGN_IN = _LOADED.sign_in
DATABASE = _LOADED.database
ALERTS = _LOADED.alerts
WEBSOCKET_KEY_FOLDER = ENVIRONMENT.websocket_key_folder

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "axes",
    "rest_framework",
    "drf_spectacular",
    "gateway",
    "gateway.people",
    "gateway.access",
    "gateway.jobs",
    "gateway.alerts",
    "gateway.copies",
    "admin_ui",
]

# All are asynchronous: a synchronous one would make every request wait for a thread twice.
MIDDLEWARE = [
    "gateway.http.entrance.Entrance",
    "gateway.http.auth.identity.UserMiddleware",
    "gateway.http.installed.middleware",
]
ROOT_URLCONF = "gateway.urls"
ASGI_APPLICATION = "gateway.asgi.application"
TEMPLATES: list[dict[str, Any]] = []
APPEND_SLASH = False  # A redirect would lose the body of a PUT.

DATABASES = {"default": DATABASE.django(ENVIRONMENT.data_dir)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = REDIS.channel_layers()
CELERY_BROKER_URL = REDIS.celery_url() or "memory://"
CELERY_BROKER_USE_SSL = REDIS.tls() or None

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SESSION_ENGINE = "gateway.people.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_SAMESITE = "Strict"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20

# django-axes refuses before a password is looked at, so it is the first.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "gateway.people.backend.PeopleBackend",
]
PASSWORD_HASHERS = [
    "gateway.people.backend.Argon2",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AXES_FAILURE_LIMIT = SIGN_IN.sign_in_failures_max
AXES_COOLOFF_TIME = timedelta(minutes=SIGN_IN.sign_in_pause_minutes)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "gateway.people.signing_in.address_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True  # It would grow without bound; the audit log has the sign-ins.
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
SILENCED_SYSTEM_CHECKS = ["axes.W002"]  # Its middleware renders pages; the call itself answers.

globals().update(ALERTS.mail())

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
FRONT_END_DIR = BASE_DIR / "frontend" / "dist"
DOCUMENTATION_DIR = BASE_DIR / "docs" / "_build" / "html"
"""The site that `make docs` builds; a wheel has it at the same place beside the packages."""
STATIC_URL = "/static/"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "engine.base.log.formatter", "form": _LOADED.log.log_format}},
    "filters": {"seldom": {"()": "engine.base.log.Seldom", "name": "kazoo"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["seldom"]}
    },
    "root": {"handlers": ["stderr"], "level": _LOADED.log.log_level},
    "loggers": {
        # Django logs every 4xx and 5xx answer again; the gateway logs an error once, where it arises.
        "django.request": {"level": "CRITICAL"},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "daphne.http_protocol": {"level": "WARNING"},
        "daphne.server": {"level": "WARNING"},
        # uvicorn logs a line for each malformed request, and for each socket that opens or closes.
        "uvicorn.error": {"level": "ERROR"},
        "websockets": {"level": "WARNING"},
        "kazoo": {"level": "WARNING"},
        # The gateway logs a refused sign-in itself, without the name: people type passwords there.
        "axes": {"level": "CRITICAL"},
        # The calls that wait for a connection fail, and are logged.
        "psycopg.pool": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
    },
}
