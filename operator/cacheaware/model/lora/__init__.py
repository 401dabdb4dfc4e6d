"""LoRA adapters: whether one binds to its base model (`check`), and a copy that does (`fix`)."""
