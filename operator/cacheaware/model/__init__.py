"""What a model's configuration tells: its structure, its cost on a GPU, its traps."""
