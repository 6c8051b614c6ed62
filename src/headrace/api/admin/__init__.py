"""The administration API's wire formats."""
