"""Small accept-length traces that this project made itself, and the script that makes them."""
