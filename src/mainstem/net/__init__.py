"""What listeners of every protocol have in common: the way in, and how many may come."""
