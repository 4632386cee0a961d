"""What a server rebuilds of its clients' samples, from what they send and from what it makes them send."""
