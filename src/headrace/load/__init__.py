"""A load client for any OpenAI-compatible server. It knows nothing but HTTP."""
