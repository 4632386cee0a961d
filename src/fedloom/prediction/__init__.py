"""Prediction stages: they follow a method and change which weights a client predicts with (``fedavg+fedpredict``)."""
