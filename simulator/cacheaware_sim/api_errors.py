"""How the mock engine refuses, in vLLM's words."""

from typing import Any


class ApiError(Exception):
    """A request that is answered with an error object."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        """The JSON of the answer; the same object ends a stream that has begun."""
        error = {"message": self.message, "type": self.kind, "param": self.param}
        return {"error": {**error, "code": self.status}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    """The request makes no sense."""
    return ApiError(400, "BadRequestError", message, param)


def unknown_model(name: str) -> ApiError:
    """The model is not served here."""
    return ApiError(404, "NotFoundError", f"The model `{name}` does not exist.", "model")


def engine_gone() -> ApiError:
    """The engine has cut the request, or admits none because it is ending."""
    return ApiError(500, "InternalServerError", "EngineCore encountered an issue.")
