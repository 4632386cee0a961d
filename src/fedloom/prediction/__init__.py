"""Which weights a client predicts with: stages that can follow any method (``fedavg+fedpredict``)."""
