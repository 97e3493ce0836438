"""The checks of ``magnetar doctor``."""
