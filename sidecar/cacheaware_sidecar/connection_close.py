"""ASGI middleware for the engine's server: `Connection: close` while the pod is on its way out.

The sidecar puts this file into the shared folder. vLLM loads it with
`PYTHONPATH=/var/run/cacheaware vllm serve ... --middleware connection_close.ConnectionClose`.
A load balancer takes a pod out for new connections only; clients that keep theirs would go on
sending. Told to close, they open their next connection elsewhere, and no request is lost.

Standard library only: it runs in the engine's own process.
"""

import os

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - light, and no surprise
CLOSE = (b"connection", b"close")


class ConnectionClose:
    """Wraps an ASGI application."""

    def __init__(self, app, folder=FOLDER):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
        self.app = app
        self.file = os.path.join(folder, "closing")  # noqa: PTH118 - as above

    async def __call__(self, scope, receive, send):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
        """Serve one request; the answer's header is changed only while the file is there."""

        async def closing(message):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            if message["type"] == "http.response.start" and os.path.exists(self.file):  # noqa: PTH110, ASYNC240 - one stat of a memory-backed folder
                headers = [h for h in message.get("headers", ()) if h[0].lower() != CLOSE[0]]
                message = {**message, "headers": [*headers, CLOSE]}
            await send(message)

        await self.app(scope, receive, closing if scope["type"] == "http" else send)
