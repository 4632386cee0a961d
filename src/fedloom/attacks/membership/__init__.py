"""Whether a sample was trained on, as far as whoever has the model can tell."""
