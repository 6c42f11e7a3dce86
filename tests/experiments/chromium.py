"""A headless Chromium over its debugging pipe: JSON messages that end in a zero byte, no further package."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

PATH = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)

# The browser reads commands from file descriptor 3 and answers on 4.
_LAUNCH = """
import os, sys
commands, answers, *line = sys.argv[1:]
kept = os.dup(int(commands)), os.dup(int(answers))
moved = [os.dup(fd) if fd in (3, 4) else fd for fd in kept]
for fd, place in zip(moved, (3, 4)):
    os.dup2(fd, place)
    os.set_inheritable(place, True)
os.execv(line[0], line)
"""


class Browser:
    """One page of a browser. ``problems`` has everything that its console reported as wrong."""

    def __init__(self, profile, patience=60.0):
        self.problems, self.requests, self._patience = [], [], patience
        self._numbers, self._buffer = itertools.count(1), b""
        commands, self._send_to = os.pipe()
        self._read_from, answers = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]
        flags += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(commands), str(answers), PATH, *flags],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self._session = None
            self.call("Browser.close")
        finally:
            os.close(self._send_to)
            os.close(self._read_from)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send_to, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda found: found.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path, width=1200, height=900):
        self.problems.clear()
        self.requests.clear()
        self.resize(width, height)
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self._until(lambda found: found.get("method") == "Page.loadEventFired")

    def resize(self, width, height, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self):
        """Wait until what was changed has been laid out and drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": " "} if key == "Space" else {}
            name = {"Space": (" ", 32), "ArrowRight": (key, 39), "ArrowLeft": (key, 37)}[key]
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                code=key,
                key=name[0],
                windowsVirtualKeyCode=name[1],
                **text,
            )

    def hover(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(picture))

    def _until(self, is_wanted):
        deadline = time.monotonic() + self._patience
        while True:
            message = self._next(deadline)
            self._note(message)
            if is_wanted(message):
                return message

    def _next(self, deadline):
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read_from], [], [], left)[0]:
                raise TimeoutError("the browser did not answer in time")
            more = os.read(self._read_from, 1 << 16)
            if not more:
                raise RuntimeError("the browser has gone")
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        method, found = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(found["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.problems.append(str(found["args"]))
        elif method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.problems.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
