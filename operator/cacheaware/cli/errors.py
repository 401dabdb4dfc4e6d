"""How a command refuses its input."""


class BadInputError(Exception):
    """One clear line: the field, its value and what is allowed. Ends the command with code 2."""
