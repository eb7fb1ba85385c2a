"""What the advertising commands read: logs, and questions to models."""
