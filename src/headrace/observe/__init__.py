"""Numbers about the service for Prometheus: counted as requests pass, and read when asked for."""
