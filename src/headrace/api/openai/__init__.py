"""OpenAI's dialect: chat completions, completions and models."""
