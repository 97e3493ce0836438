"""The first minute of a user on a fresh Debian: set-up and start under the conditions that machines have."""
