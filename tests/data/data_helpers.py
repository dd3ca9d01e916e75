"""Small made-up files in published formats, and a web server on this machine."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def idx_bytes(array: np.ndarray) -> bytes:
    code = {"uint8": 0x08, "int32": 0x0C}[array.dtype.name]
    head = bytes([0, 0, code, array.ndim]) + np.asarray(array.shape, ">u4").tobytes()
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def small_images(samples: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x_train": rng.integers(0, 256, (samples, 28, 28), dtype=np.uint8),
        "y_train": (np.arange(samples) % 10).astype(np.uint8),
        "x_test": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "y_test": np.arange(5, dtype=np.uint8),
    }


def leaf_json(users: dict[str, tuple[list[list[float]], list[int]]]) -> str:
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    return json.dumps({"users": list(users), "num_samples": [len(y) for _, y in users.values()], "user_data": data})


class Server:
    """Serves `files` by path. `faults` names what goes wrong, one entry per request until it is used up."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.requests: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.requests.append(self.path)
                fault = owner.faults.pop(0) if owner.faults else ""
                body = owner.files.get(self.path)
                if body is None or fault == "missing":
                    self.send_error(404)
                    return
                if fault == "elsewhere":
                    self.send_response(302)
                    self.send_header("Location", "file:///etc/hostname")
                    self.end_headers()
                    return
                self.send_response(200)
                if fault != "silent about its length":
                    self.send_header("Content-Length", str(10**12 if fault == "endless" else len(body)))
                self.end_headers()
                if fault == "tampered":
                    body = body[:-1] + bytes([body[-1] ^ 1])
                self.wfile.write(body[: len(body) // 2] if fault == "truncated" else body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
