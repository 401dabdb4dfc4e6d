"""How log lines look: one line per event that a person cares about, as text or JSON."""

import json
import logging
import sys
import time
from typing import Final

TEXT: Final = "%(asctime)s %(levelname)s %(message)s"
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message, and the traceback of an error."""
        line = {
            "time": self.formatTime(record, TIME),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up(log_format: str) -> None:
    """Logs of ours from INFO on to stderr; of libraries only what is wrong."""
    formatter = JsonFormatter() if log_format == "json" else logging.Formatter(TEXT, TIME)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("cacheaware_sidecar").setLevel(logging.INFO)
