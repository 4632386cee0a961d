"""What an audit tells: the words for a data-protection officer, the numbers as text, and the page."""
