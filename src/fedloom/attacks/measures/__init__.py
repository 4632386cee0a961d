"""How well an attack did: likeness of images, and rates of right and wrong guesses with their confidence."""
