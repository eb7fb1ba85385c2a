"""What a request passes before it is answered: connections, limits, logs, headers."""
