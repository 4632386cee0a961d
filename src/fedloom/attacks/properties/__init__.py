"""What an attacker concludes of a client's data that nobody trained a model to say."""
