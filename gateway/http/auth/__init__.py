"""The user of a request, and the judge that is asked about what the user does."""
