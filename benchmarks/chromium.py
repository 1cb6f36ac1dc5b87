"""A page in headless Chromium, spoken to over its debugging protocol."""

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._asked = socket, 0

    async def ask(self, method: str, **given: object) -> dict[str, Any]:
        """The result of a command; events meanwhile are passed over."""
        self._asked += 1
        await self._socket.send_json({"id": self._asked, "method": method, "params": given})
        while True:
            answer = json.loads((await self._socket.receive()).data)
            if answer.get("id") == self._asked:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    async def value(self, expression: str) -> Any:
        """What a script comes to."""
        found = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    async def open(self, page: Path) -> None:
        """Load a file, also anew, and wait until it is there."""
        await self.ask("Page.navigate", url=page.resolve().as_uri())
        while await self.value("document.readyState") != "complete":
            await asyncio.sleep(0.05)

    async def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.ask("Emulation.setDeviceMetricsOverride", **metrics)

    async def shoot(self, path: Path) -> None:
        """Write a picture of what is in view."""
        path.write_bytes(base64.b64decode((await self.ask("Page.captureScreenshot"))["data"]))


@asynccontextmanager
async def tab(preferences: Mapping[str, object] | None = None) -> AsyncIterator[Tab]:
    """A page of a Chromium with a profile of its own."""
    with _chromium(preferences or {}) as debugger:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{debugger}/json/list") as answer:
                (target, *_) = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)


def installed() -> str | None:
    """The program, if this machine has one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def _chromium(preferences: Mapping[str, object]) -> Iterator[str]:
    program = installed()
    if program is None:
        sys.exit("no Chromium on this machine; install it: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (Path(profile) / "Default").mkdir()
        (Path(profile) / "Default/Preferences").write_text(json.dumps(preferences))
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            told = next(line for line in process.stderr if "DevTools listening on" in line)
            try:
                yield told.split()[-1].replace("ws://", "http://").partition("/devtools")[0]
            finally:
                process.kill()
