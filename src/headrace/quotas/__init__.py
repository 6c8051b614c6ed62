"""What tenants and keys may use, counted: reserved before the work, settled after it."""
