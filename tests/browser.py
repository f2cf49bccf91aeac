"""A headless Chromium that opens pages from the disk, one at a time: tests look at them, press keys and move the mouse.

It talks to the browser over a pipe (--remote-debugging-pipe): JSON objects that end with a NUL byte.
"""
import atexit
import json
import os
import shutil
import subprocess
import tempfile
import time

from lib import Failed, Skip, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """The process that all pages of a test program share."""
    one = None

    def __init__(self):
        program = next((p for p in map(shutil.which, NAMES) if p), None)
        if not program:
            raise Skip("chromium is not installed")
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.from_us = os.pipe()
        self.from_browser, by_browser = os.pipe()
        os.set_inheritable(to_browser, True)
        os.set_inheritable(by_browser, True)
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", "--user-data-dir=" + self.profile,
                   "--remote-debugging-pipe", "about:blank"]

        def pipes():  # the browser reads from descriptor 3 and writes to 4
            a, b = os.dup(to_browser), os.dup(by_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False)
        os.close(to_browser)
        os.close(by_browser)
        self.rest, self.number = b"", 0
        atexit.register(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, **message):
        """Returns the number that the answer will have."""
        self.number += 1
        os.write(self.from_us, json.dumps({"id": self.number, **message}).encode() + b"\0")
        return self.number

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.from_browser, 1 << 20)
            if not more:
                raise Failed("the browser has ended")
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)


class Page:
    """Use it in a with statement. `errors` and `requests` are what the page did wrong, or loaded."""

    def __init__(self, path, javascript=True):
        if not Browser.one or Browser.one.process.poll() is not None:
            Browser.one = Browser()
        self.errors, self.requests, self.session = [], [], {}
        self.context = self.call("Target.createBrowserContext")
        target = self.call("Target.createTarget", url="about:blank", width=1400, height=1000, **self.context)["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        if not javascript:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("document.readyState == 'complete'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = {}
        self.call("Target.disposeBrowserContext", **self.context)

    # messages

    def note(self, message):
        kind, p = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("exception", {}).get("description") or str(p))
        elif kind == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(p["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.errors.append(str(p["args"]))
        elif kind == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("data:", "blob:")):
            self.requests.append(p["request"]["url"])

    def call(self, method, **params):
        number = Browser.one.send(method=method, params=params, **self.session)
        while True:
            answer = Browser.one.receive()
            if answer.get("id") == number:
                expect("error" not in answer, "%s: %s", method, answer.get("error"))
                return answer["result"]
            if answer.get("sessionId") == self.session.get("sessionId"):
                self.note(answer)

    # what tests do

    def run(self, expression):
        """The value of an expression of JavaScript in the page."""
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        expect("exceptionDetails" not in r, "%s: %s", expression, r.get("exceptionDetails"))
        return r["result"].get("value")

    def holds(self, expression):
        """False, too, if the page is just being replaced."""
        try:
            return self.run("!!(%s)" % expression)
        except Failed as e:
            if "navigated" not in str(e):
                raise
            return False

    def wait_for(self, expression, seconds=60):
        end = time.time() + seconds
        while not self.holds(expression):
            expect(time.time() < end, "not so after %s s: %s", seconds, expression)
            time.sleep(0.02)

    def text(self, selector):
        return self.run("[...document.querySelectorAll(%s)].map(e => e.textContent)" % json.dumps(selector))

    def key(self, key):
        named = len(key) > 1
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({} if named or kind == "keyUp" else {"text": key}))

    def type(self, selector, text):
        self.run("document.querySelector(%s).focus()" % json.dumps(selector))
        self.call("Input.insertText", text=text)

    def box(self, selector):
        return self.run("(b => [b.left, b.top, b.width, b.height])(document.querySelector(%s).getBoundingClientRect())"
                        % json.dumps(selector))

    def mouse(self, selector, x, y, click=False):
        """Moves the mouse to the point (x, y), parts of the element's size, and may click there."""
        self.run("document.querySelector(%s).scrollIntoView({block: 'center'})" % json.dumps(selector))
        left, top, width, height = self.box(selector)
        at = {"x": left + x * width, "y": top + y * height}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def is_clean(self):
        """No error, and no request but for the page itself."""
        expect(not self.errors, "errors: %s", self.errors)
        expect(len(self.requests) == 1, "requests: %s", self.requests)
