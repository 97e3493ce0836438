"""The Django app behind the console: its API, live feed, saved views, audit log and the page itself."""
