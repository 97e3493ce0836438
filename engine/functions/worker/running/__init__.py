"""The instances of one worker: leases, the user's code, start, restart and end."""
