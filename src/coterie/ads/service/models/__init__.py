"""The model that a service answers from: loading, checking, exchanging it."""
