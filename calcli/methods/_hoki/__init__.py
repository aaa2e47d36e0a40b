"""What Hoki is made of: noise, rounds, and what is said of them."""
