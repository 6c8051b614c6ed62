"""What every request cost: charges, and what they sum up to."""
