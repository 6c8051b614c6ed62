"""Which models are in memory: opened, loaded, unloaded, within one budget."""
