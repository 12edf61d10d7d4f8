"""Talking to a result: owns the one engine process that holds the model."""
