"""The real vLLM on CPU with a tiny random model: installed once into the user's cache folder."""
