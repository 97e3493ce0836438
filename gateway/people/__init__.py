"""People who use the console: their accounts, the roles that they act as, their passwords and their sessions."""
