"""Takes the pictures of the documentation from reports, with the browser of the tests.

Run with: .venv/bin/python docs/screenshots.py REPORT NAME HEIGHT
"""

import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 1160


def browser_module() -> ModuleType:
    """tests/browser/chromium.py."""
    path = ROOT / "tests" / "browser" / "chromium.py"
    spec = importlib.util.spec_from_file_location("chromium", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(report: str, name: str, height: str) -> None:
    chromium = browser_module()
    with tempfile.TemporaryDirectory() as profile:
        browser = chromium.Chromium(chromium.find(), Path(profile))
        try:
            browser.open(Path(report).resolve(), WIDTH, height=int(height))
            picture = Image.fromarray(browser.screenshot())
        finally:
            browser.close()
    target = ROOT / "docs" / "_static" / f"{name}.png"
    picture.quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
