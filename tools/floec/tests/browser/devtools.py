"""A headless Chromium, driven over its DevTools pipe: no port, no library."""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60


class Failure(Exception):
    """The browser refused a command, or did not answer."""


def find():
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a browser of its own. `errors` collects what the page complains about, `requests` what it fetches."""

    def __init__(self, program):
        self.numbers, self.pending, self.session = itertools.count(1), b"", None
        self.errors, self.requests = [], []
        self.folder = tempfile.TemporaryDirectory(prefix="browser-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        words += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={self.folder.name}", "about:blank"]
        # The pipe is file descriptors 3 and 4.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *words], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in), os.close(theirs_out)
        self.input, self.output = ours_in, ours_out
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.input), os.close(self.output)
        self.folder.cleanup()

    def call(self, method, **parameters):
        """The result of a command."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self):
        """The next message; events are noted on the way."""
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            if not select.select([self.input], [], [], max(0, until - time.monotonic()))[0]:
                raise Failure(f"the browser said nothing for {PATIENCE} seconds")
            read = os.read(self.input, 1 << 20)
            if not read:
                raise Failure("the browser has ended")
            self.pending += read
        text, _, self.pending = self.pending.partition(b"\0")
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, event, facts):
        if event == "Runtime.exceptionThrown":
            details = facts["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(word.get("value", word.get("description"))) for word in facts["args"]))
        elif event == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.errors.append(facts["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])

    def size(self, width, height):
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > until:
                raise Failure(f"{path} does not load")
        self.settle()

    def evaluate(self, expression):
        """The value of an expression, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failure(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def settle(self):
        """Two frames: what a change of the page draws is then drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, selector):
        """A click in the middle of the first element that fits."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        self.settle()
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        place = f"(({{left, top, width, height}}) => [left + width / 2, top + height / 2])({box})"
        x, y = self.evaluate(place)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def key(self, name, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)
        self.settle()

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(picture))
