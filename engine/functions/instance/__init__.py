"""The program of one instance: consumes its inputs, runs the user's code and publishes what that returns.

One event loop does all input and output (``instance``); the user's code runs on one thread (``processing``), so that
it may block. Runs of messages go to the thread and slices of results come back: nothing wakes a thread per message
under load.
"""
