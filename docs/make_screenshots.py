"""Takes the screenshots of the live page for the docs: `python docs/make_screenshots.py`.

Run it in an empty folder. It needs chromium and chromedriver. The study stops in the middle of a
deepening, with four evaluations running, until both pictures are taken.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from base64 import b64decode
from io import BytesIO
from pathlib import Path

from PIL import Image
from selenium import webdriver

IMAGES = Path(__file__).parent / "images"
LOOKS = {"page": (1440, 1500, "light"), "phone": (390, 1130, "dark")}
RUNNING = "4 running"
TRAIN = """
import math, random, time
from pathlib import Path

space = {
    "lr": (1e-4, 1e-1, "log"),
    "layers": (1, 8),
    "dropout": (0.0, 0.5),
    "optimizer": ["sgd", "adam"],
}


def train(config, budget, context):
    while budget == 27 and Path("hold").exists():
        time.sleep(0.1)
    if config["layers"] == 8 and config["dropout"] > 0.4:
        raise MemoryError("the model does not fit into memory")
    for epoch in range(1, budget + 1):
        time.sleep(0.01)
        context.report(epoch, loss_after(config, epoch))
    loss = loss_after(config, budget)
    return {"loss": loss, "accuracy": 1 - loss}


def loss_after(config, budget):
    noise = random.Random(repr((sorted(config.items()), budget))).gauss(0, 0.02)
    floor = 0.02 * abs(math.log10(config["lr"]) + 2) ** 2 + 0.1 * config["dropout"]
    return floor + abs(noise) / budget**0.5 + 0.4 / (budget**0.6 * config["layers"] ** 0.3)
"""


def main() -> None:
    Path("train.py").write_text(TRAIN)
    deepband("run", "mlp.study", "train.py:train", "--max-budget", "27").wait()
    deepband("deepen", "mlp.study", "--to", "81").wait()
    Path("hold").touch()
    run = deepband("run", "mlp.study", "--workers", "4")
    server = deepband("serve", "mlp.study", "--port", "0")
    assert server.stdout is not None
    take(server.stdout.readline().strip())
    server.terminate()
    Path("hold").unlink()
    run.wait()


def deepband(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deepband", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def take(url: str) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for name, (width, height, scheme) in LOOKS.items():
            shape = {"width": width, "height": height, "deviceScaleFactor": 1}
            shape["mobile"] = width < 600
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
            feature = {"name": "prefers-color-scheme", "value": scheme}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            driver.get(url)
            wait_until_running(driver)
            picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
            image = Image.open(BytesIO(b64decode(picture["data"])))
            image.convert("RGB").quantize(128).save(IMAGES / f"{name}.png", optimize=True)


def wait_until_running(driver: webdriver.Chrome) -> None:
    """Wait until the page shows that only the evaluations that are held back are left to run."""
    text = ""
    while RUNNING not in text or "Being computed" in text:
        text = driver.execute_script("return document.body.textContent")
        time.sleep(0.2)
    time.sleep(3)  # the page updates itself once more when the lower rungs are complete


if __name__ == "__main__":
    main()
