"""Constraints at the logits: what an answer must follow, compiled to masks over tokens."""
