"""What tests share: small federations, a Flower of its own, files in the data folder."""
