"""A server of its own process, and a browser that notes everything that goes wrong on a page."""

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"]


@contextmanager
def serving(collection, *options, port=0):
    """Yield the address of `ordrank serve`."""
    command = [sys.executable, "-m", "ordrank", "serve", str(collection), "--port", str(port), *options]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "500", "NO_COLOR": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    said = []
    try:
        for line in server.stdout:
            said.append(line)
            if found := re.search(r"http://[^\s/]+/", line):
                yield found[0]
                break
        else:
            raise RuntimeError("the server ended: " + "".join(said))
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


class Watch:
    """Errors on the console (broken rules of the content policy are there, too), exceptions, requests to elsewhere."""

    def __init__(self, page, address):
        self.found = []
        self.forgiven = []
        page.on("console", lambda message: message.type == "error" and self.found.append(message.text))
        page.on("pageerror", lambda error: self.found.append(str(error)))
        page.on("request", lambda request: self._see(request.url, address))

    def _see(self, url, address):
        if not url.startswith((address, "blob:", "data:")):
            self.found.append(f"request to {url}")

    def forgive(self, status):
        """Chromium writes every refusal of a server to the console."""
        self.forgiven.append(f"status of {status}")

    @property
    def problems(self):
        return [text for text in self.found if not any(one in text for one in self.forgiven)]


_HAND_OVER = """([event, name, type, base64]) => {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type }));
  const given = { bubbles: true, cancelable: true };
  document.body.dispatchEvent(event === "paste"
    ? new ClipboardEvent(event, { ...given, clipboardData: data })
    : new DragEvent(event, { ...given, dataTransfer: data }));
}"""


def hand_over(page, event, file, kind="image/png"):
    """Drop (or drag in, or paste) a file as a person would."""
    content = base64.b64encode(Path(file).read_bytes()).decode()
    page.evaluate(_HAND_OVER, [event, Path(file).name, kind, content])
