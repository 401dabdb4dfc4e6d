"""Foreign values in our lines: as much of them as a line can bear."""


def clipped(text: str, most: int = 60) -> str:
    """The text, or its beginning and three dots: never more than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
