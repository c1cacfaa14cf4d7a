"""A headless Chromium over its debugging pipe (DevTools protocol, messages of JSON that end with a zero byte)."""
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def remove(folder, seconds=20):
    """Removes the folder, in which processes that are being killed may still make files."""
    end = time.monotonic() + seconds
    while os.path.exists(folder):
        shutil.rmtree(folder, ignore_errors=time.monotonic() < end)
        time.sleep(0.05)


class Browser:
    """One page in a window of its own; used in a with statement."""

    def __init__(self, path, width=1000, height=700):
        self.folder = tempfile.mkdtemp(prefix="tenon-browser-")
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def descriptors():  # the browser reads from 3 and writes to 4
            kept_in, kept_out = os.dup(to_read), os.dup(from_write)
            os.dup2(kept_in, 3)
            os.dup2(kept_out, 4)
        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--user-data-dir=" + self.folder, "--window-size=%d,%d" % (width, height), "--remote-debugging-pipe",
             "about:blank"], preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        self.to, self.answers = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")
        self.number, self.rest, self.session, self.events = 0, b"", None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.to.close()
        self.answers.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its helpers outlive it for a while, and write in the folder
        except ProcessLookupError:
            pass
        self.process.wait(20)
        remove(self.folder)

    def message(self):
        while b"\0" not in self.rest:
            data = self.answers.read1(1 << 16)
            assert data, "the browser is gone"
            self.rest += data
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.number += 1
        body = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            body["sessionId"] = self.session
        self.to.write(json.dumps(body).encode() + b"\0")
        self.to.flush()
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def open(self, url):
        self.call("Page.navigate", url=url)
        assert self.until("document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run("Boolean(%s)" % condition):
                return True
            time.sleep(0.03)
        return False

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, code=None, modifiers=0, number=0):
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=modifiers,
                      windowsVirtualKeyCode=number, **(text if kind == "keyDown" else {}))

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme",
                                                           "value": "dark" if dark else "light"}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def faults(self):
        """What the page's console and the policy complained about."""
        return [m for m in self.events if m.get("method") == "Runtime.exceptionThrown" or
                m.get("method") == "Log.entryAdded" and m["params"]["entry"]["level"] == "error"]

    def requested(self):
        return [m["params"]["request"]["url"] for m in self.events if m.get("method") == "Network.requestWillBeSent"]
