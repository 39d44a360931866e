"""A headless Chromium, spoken to over two pipes in the DevTools protocol: no package needed."""

import base64
import contextlib
import io
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0  # seconds, for machines that are busy


def find() -> str | None:
    """Where the browser is, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser with one tab.

    Args:
        program: the browser.
        profile: an empty folder for what it writes.
    """

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += ["--no-first-run", "--disable-background-networking", "--hide-scrollbars"]
        options += [f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        # The protocol wants the pipes as the descriptors 3 and 4.
        shell = f'exec 3<&{commands} 4>&{answers}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *options, "about:blank"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._count = 0
        self._rest = b""
        self.events: list[dict] = []
        target = next(info["targetId"] for info in self._pages() if info["type"] == "page")
        self._session: str | None = None
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _pages(self) -> list[dict]:
        self._session = None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.send("Target.getTargets")["targetInfos"]
            if any(info["type"] == "page" for info in found):
                return found
            time.sleep(0.1)
        raise TimeoutError("the browser has no page")

    def close(self) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            self._session = None
            self.send("Browser.close")
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def send(self, method: str, **parameters: object) -> dict:
        """Call a method and return its result; events that come meanwhile are kept."""
        self._count += 1
        message: dict = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise TimeoutError(method)

    def _messages(self) -> Iterator[dict]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self._rest:
                one, _, self._rest = self._rest.partition(b"\0")
                message = json.loads(one)
                if "method" in message:
                    self.events.append(message)
                yield message
            if select.select([self._from], [], [], 0.5)[0]:
                self._rest += os.read(self._from, 1 << 20)

    def wait_for(self, method: str) -> dict:
        """The next event of a kind, also one that came already."""
        for event in self.events:
            if event["method"] == method:
                return event
        for message in self._messages():
            if message.get("method") == method:
                return message
        raise TimeoutError(method)

    def open(self, path: Path, width: int = 1200, dark: bool = False, height: int = 900) -> None:
        """Load a file in a window of a width; events from before are forgotten."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> object:
        """The value of an expression, awaited."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key, as a person presses it."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def screenshot(self) -> np.ndarray:
        """The visible part of the page, (H, W, 3)."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        return np.asarray(picture.convert("RGB"))

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, uncaught exceptions, and dialogs."""
        found = []
        for event in self.events:
            name, given = event["method"], event.get("params", {})
            if name == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            if name == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
                found.append(str(given["args"]))
            if name == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"]["text"])
            if name == "Page.javascriptDialogOpening":
                found.append(f"dialog: {given['message']}")
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for, other than files and data in the page."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("file:", "data:"))]
