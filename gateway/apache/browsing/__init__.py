"""Messages and cursors of topics of Apache Pulsar, read by the admin REST."""
