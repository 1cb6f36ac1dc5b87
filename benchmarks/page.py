"""Looks at a report in headless Chromium: does anything leave the page, overlap, or fail axe-core's rules?

    python -m benchmarks.page runs/NAME/report/index.html [--axe node_modules/axe-core/axe.min.js]

At 1280, 800 and 390 px, light and dark, with every part opened: nothing may reach beyond the page except in a box that
scrolls, no number or interval in a table may be broken over two lines, and no two texts may overlap. With axe-core
(`npm install axe-core`) no violation may be serious or critical.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp

WIDTHS = (1280, 800, 390)
THEMES = ("light", "dark")
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
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
BEYOND = """(() => {
  const wide = document.documentElement.clientWidth, found = [];
  for (const one of document.querySelectorAll('body *')) {
    if (one.parentElement.closest('.scroll')) continue;
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1)) found.push(`beyond: ${one.tagName}.${one.className}`);
  }
  return [...new Set(found)];
})()"""
BROKEN = r"""(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, cell = node.parentElement.closest('td');
    if (!cell || cell.closest('.prose') || node.parentElement.closest('.text')) continue;
    for (const number of node.textContent.matchAll(/[-+]?[0-9][0-9.,]*([\u2013\/]| to )?([-+]?[0-9.,]+)?( %)?/g)) {
      const range = document.createRange();
      range.setStart(node, number.index);
      range.setEnd(node, number.index + number[0].length);
      const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (tops.size > 1) found.push(`broken: ${number[0]} of ${cell.closest('tr').textContent.replace(/\s+/g, ' ')}`);
    }
  }
  return [...new Set(found)];
})()"""
OVERLAP = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), boxes = [], found = [];
  while (walker.nextNode()) {
    if (!walker.currentNode.textContent.trim() || walker.currentNode.parentElement.closest('.text')) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const r of range.getClientRects())
      if (r.width > 1) boxes.push([r, walker.currentNode.textContent.trim().slice(0, 40)]);
  }
  boxes.sort((a, b) => a[0].top - b[0].top);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j][0].top < boxes[i][0].bottom; j++) {
      const [a, b] = [boxes[i][0], boxes[j][0]];
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 2 && y > 0.5 * Math.min(a.height, b.height)) found.push(`overlap: ${boxes[i][1]} / ${boxes[j][1]}`);
    }
  return [...new Set(found)];
})()"""
AXE = """axe.run(document, {resultTypes: ['violations']}).then(seen => seen.violations
  .filter(one => ['serious', 'critical'].includes(one.impact))
  .map(one => `axe ${one.impact} ${one.id}: ${one.nodes.length} x ${one.nodes[0].html.slice(0, 120)}`))"""


@contextmanager
def browser() -> Iterator[str]:
    """A Chromium with a profile of its own; the address of its debugger."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no Chromium on this machine; install it: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            told = next(line for line in process.stderr if "DevTools listening on" in line)
            try:
                yield told.split()[-1].replace("ws://", "http://").partition("/devtools")[0]
            finally:
                process.kill()


class Tab:
    """One page of the browser, spoken to over the debugging protocol."""

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


async def problems(page: Path, axe: Path | None) -> list[str]:
    """What is wrong with a page at each width and theme."""
    found: list[str] = []
    with browser() as debugger:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{debugger}/json/list") as answer:
                (target, *_) = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                await tab.ask("Page.setBypassCSP", enabled=True)
                for width, theme in product(WIDTHS, THEMES):
                    at = f"{width} px {theme}"
                    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                    await tab.ask("Emulation.setDeviceMetricsOverride", **metrics)
                    feature = {"name": "prefers-color-scheme", "value": theme}
                    await tab.ask("Emulation.setEmulatedMedia", features=[feature])
                    await tab.ask("Page.navigate", url=page.resolve().as_uri())
                    while await tab.value("document.readyState") != "complete":
                        await asyncio.sleep(0.05)
                    await tab.value(OPEN)
                    scripts = [BEYOND, BROKEN, OVERLAP]
                    if axe is not None:
                        await tab.value(axe.read_text(encoding="utf-8"))
                        scripts.append(AXE)
                    found += [f"{at}: {one}" for script in scripts for one in await tab.value(script)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    given = parser.parse_args()
    found = asyncio.run(problems(given.page, given.axe))
    for one in found:
        print(one)
    rules = "axe-core too" if given.axe else "without axe-core"
    print(f"{given.page}: {len(found)} problems at {', '.join(map(str, WIDTHS))} px, light and dark, {rules}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
