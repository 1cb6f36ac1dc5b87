"""Looks at a report in headless Chromium: does anything leave the page, overlap, or fail axe-core's rules?

    python -m benchmarks.page runs/NAME/report/index.html [--axe node_modules/axe-core/axe.min.js]

At 1280, 800 and 390 px, light and dark, with every part opened: nothing may reach beyond the page except in a box that
scrolls, no number or interval in a table may be broken over two lines, and no two texts may overlap. With axe-core
(`npm install axe-core`) no violation may be serious or critical.
"""

import argparse
import asyncio
import sys
from itertools import product
from pathlib import Path

from benchmarks.chromium import tab

WIDTHS = (1280, 800, 390)
THEMES = ("light", "dark")
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


async def problems(page: Path, axe: Path | None) -> list[str]:
    """What is wrong with a page at each width and theme."""
    found: list[str] = []
    async with tab() as shown:
        await shown.ask("Page.setBypassCSP", enabled=True)
        for width, theme in product(WIDTHS, THEMES):
            await shown.resize(width, 900)
            feature = {"name": "prefers-color-scheme", "value": theme}
            await shown.ask("Emulation.setEmulatedMedia", features=[feature])
            await shown.open(page)
            await shown.value(OPEN)
            scripts = [BEYOND, BROKEN, OVERLAP]
            if axe is not None:
                await shown.value(axe.read_text(encoding="utf-8"))
                scripts.append(AXE)
            found += [f"{width} px {theme}: {one}" for script in scripts for one in await shown.value(script)]
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
