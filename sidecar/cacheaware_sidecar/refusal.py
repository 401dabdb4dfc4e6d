"""How a control call is refused."""


class RefusedError(Exception):
    """A call that is not taken: the status of its answer, and one line without the token."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status
