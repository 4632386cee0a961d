"""What an attacker finds out of real runs, against what the library promises."""
