"""Chromium without a window, spoken to by its DevTools protocol."""
import asyncio
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request

from tornado.websocket import websocket_connect

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._child = subprocess.Popen([PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                        "--no-first-run", "--remote-debugging-port=0",
                                        f"--user-data-dir={self._folder.name}", "about:blank"],
                                       stderr=subprocess.PIPE, text=True)
        for line in self._child.stderr:
            if found := re.search(r"listening on ws://([^/]+)/", line):
                break
        with urllib.request.urlopen(f"http://{found[1]}/json/list", timeout=30) as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        self._loop, self._number = asyncio.new_event_loop(), 0
        self._socket = self._run(lambda: websocket_connect(page["webSocketDebuggerUrl"], max_message_size=1 << 28))
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._loop.close()
        self._child.kill()
        self._child.communicate()
        self._folder.cleanup()

    def _run(self, begin):
        async def whole():
            return await begin()
        return self._loop.run_until_complete(asyncio.wait_for(whole(), 60))

    def call(self, method, **params):
        self._number += 1
        text = json.dumps({"id": self._number, "method": method, "params": params})
        self._run(lambda: self._socket.write_message(text))
        while True:
            answer = json.loads(self._run(self._socket.read_message))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, path, width=1280, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.evaluate("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def press(self, key, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code or 0, **more)
