"""The user's side of an instance: loading the code, its values, its Context, windows, and the thread that runs it."""
