"""The live page and the report in a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deepband
import hostile
from deepband import FailedEvaluationsWarning
from deepband.analysis.confirmations import confirmation_notes, confirmation_table
from deepband.analysis.quote import quote_table
from deepband.core.extension import options
from deepband.interfaces.report.html_report import write_report
from driving import extended, finish, noisy, wait_until
from serving import serving
from trade_off import TWO, evaluate, finished

if TYPE_CHECKING:  # loading it takes half a second, in every test process
    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(240)]

SPACE = {"lr": (1e-4, 1e-1, "log"), "kind": ["a", "b"]}
PHONE, DESKTOP = (390, 844), (1280, 900)
LOOKS = [(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"), (DESKTOP, "dark")]


class Browser:
    """A browser page, and the errors on it."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def look(self, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> None:
        """Be a phone or a desktop, in dark or light."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, url: str) -> None:
        self.driver.get(url)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def press(self, key: str, selector: str) -> None:
        """Press a key, such as ENTER, in an element."""
        from selenium.webdriver.common.keys import Keys

        self.find(selector).send_keys(getattr(Keys, key))

    def choose(self, text: str, selector: str) -> None:
        """Choose an option by what it says."""
        from selenium.webdriver.support.ui import Select

        Select(self.find(selector)).select_by_visible_text(text)

    def texts(self, selector: str) -> list[str]:
        """What elements say, read in one go because the page may change at any moment."""
        code = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        found: list[str] = self.driver.execute_script(code, selector)
        return found

    def click(self, selector: str) -> None:
        """Find an element and click it in one go, because the page may replace it meanwhile."""
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def run(self, code: str) -> Any:
        return self.driver.execute_script(code)

    def complaints(self) -> list[Any]:
        """What is in the console since this was last asked."""
        log: Any = self.driver.get_log
        return list(log("browser"))

    def check_quiet(self) -> None:
        """No alert fired, nothing was refused or failed, and the layout holds."""
        assert self.run("return window.alerts ?? 0") == 0
        assert self.complaints() == []
        code = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.run(code) <= 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.set_capability("unhandledPromptBehavior", "ignore")
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    with webdriver.Chrome(options=options, service=service) as driver:
        count = "window.alerts = 0; window.alert = () => { window.alerts += 1; };"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": count})
        yield driver


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    browser = Browser(chromium)
    browser.look()
    browser.complaints()
    yield browser
    chromium.get("about:blank")


def make(place: Path, max_budget: int = 9) -> deepband.Study:
    study = deepband.open_study(place, space=SPACE, max_budget=max_budget)
    finish(study, noisy(1, failures=0.1))
    return study


def drive(place: Path, objective: Any, **how: Any) -> threading.Thread:
    """Run a study in a thread of its own."""

    def run() -> None:
        with deepband.open_study(place) as study:
            study.optimize(objective, **how)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def quoted(quote: deepband.Quote) -> list[str]:
    """The row of a quote in the table of quotes."""
    return quote_table([quote])[1]


def table(browser: Browser, selector: str) -> list[list[str]]:
    """The rows of a table."""
    code = """
      const rows = [...document.querySelector(arguments[0]).querySelectorAll("tbody tr")];
      return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
    """
    found: list[list[str]] = browser.driver.execute_script(code, selector)
    return found


def test_cells_fill_while_a_study_runs_and_is_deepened(browser: Browser, tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    go = threading.Event()

    def train(config: dict[str, Any], budget: int) -> float:
        if budget == 3:
            go.wait(30)
        return float(config["lr"]) / budget

    deepband.open_study(place, space=SPACE, max_budget=9).close()
    with serving(place) as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#cell-0-0 span") == ["0 of 9"])
        browser.run("window.stayed = true")
        thread = drive(place, train)
        wait_until(lambda: browser.texts("#cell-0-0 span") == ["9 of 9"])
        assert browser.texts("#cell-2-2 span") == ["0 of 3"]
        assert "Available when the run is done" in browser.find("#quotes").text
        assert len(browser.all("#cell-0-0 .mark.run0")) == 9
        assert len(browser.all("#cell-0-0 .mark.promoted")) == 3
        go.set()
        thread.join()
        study = deepband.open_study(place)
        wait_until(lambda: browser.texts("#cell-2-2 span") == ["3 of 3"])
        wait_until(lambda: "done" in browser.find("#state").text)
        count = len(list(options(study.session.state)))
        wait_until(lambda: len(browser.all("#quotes tbody tr")) == count)
        assert quoted(study.quote("efficient")) in table(browser, "#quotes")
        wait_until(lambda: browser.texts("#count") == ["22 evaluations"])

        study.deepen("preserving")
        wait_until(lambda: browser.texts("#cell-3-3 span") == ["0 of 4"])
        assert browser.texts("#cell-0-0 span") == ["9 of 27"]
        study.optimize(train)
        wait_until(lambda: browser.texts("#cell-0-0 span") == ["27 of 27"])
        assert len(browser.all("#cell-0-0 .mark.run1")) == 18
        assert "run 1: deepened by preserving to 27" in browser.find("#legend").text
        wait_until(lambda: f"{study.evaluations[-1].budget}" in browser.find("#incumbent").text)
        assert browser.run("return window.stayed")  # it was never loaded again
        browser.check_quiet()


def test_a_study_with_few_brackets_has_no_empty_rows(browser: Browser, tmp_path: Path) -> None:
    study = extended(str(tmp_path / "a.study"), space=SPACE)
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#brackets tbody th") == ["bracket 0", "bracket 1"])
        assert len(browser.all("#brackets thead th")) == 4
        assert "run 3, max_budget 27, width 2, brackets 2" in browser.find("#state").text
        assert "run 1: widened by efficient to width 2" in browser.find("#legend").text
        assert browser.texts("select[name=bracket] option") == ["all", "0", "1"]
        assert browser.texts("select[name=rung] option") == ["all", "0", "1", "2", "3"]
        wait_until(lambda: "to width 2" in browser.find("#incumbent").text)
        assert quoted(study.quote("efficient", width=3)) in table(browser, "#quotes")
        browser.check_quiet()


def test_running_jobs_are_seen(browser: Browser, tmp_path: Path) -> None:
    place, go = tmp_path / "a.study", tmp_path / "go"

    def train(config: dict[str, Any], budget: int) -> float:
        import time

        while not go.exists():
            time.sleep(0.02)
        return float(config["lr"])

    deepband.open_study(place, space=SPACE, max_budget=3).close()
    with serving(tmp_path) as server:
        thread = drive(place, train, workers=2)
        browser.open(server.url)
        browser.find("tbody a").click()
        wait_until(lambda: len(browser.all(".brackets .mark.running")) == 2)
        assert "2 running" in browser.find("#state").text
        go.touch()
        thread.join()
        wait_until(lambda: browser.all(".brackets .mark.running") == [])
        browser.check_quiet()


def test_the_table_sorts_filters_and_turns_pages(browser: Browser, tmp_path: Path) -> None:
    study = make(tmp_path / "a.study", 27)
    good = [each for each in study.evaluations if each.loss is not None]
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        total = f"{len(study.evaluations)} evaluations"
        wait_until(lambda: browser.texts("#count") == [total])
        assert browser.texts("#page") == ["page 1 of 2"]
        browser.find("#next").click()
        wait_until(lambda: browser.texts("#page") == ["page 2 of 2"])
        browser.find('[data-sort="value"]').click()
        least = f"{min(each.loss or 0.0 for each in good):.6g}"
        wait_until(lambda: browser.texts("#evaluations tbody tr:first-child .value") == [least])
        assert browser.find("th[aria-sort]").get_attribute("aria-sort") == "ascending"
        browser.press("ENTER", '[data-sort="value"]')  # as with a mouse
        most = f"{max(each.loss or 0.0 for each in good):.6g}"
        wait_until(lambda: browser.texts("#evaluations tbody tr:first-child .value") == [most])
        assert browser.run("return document.activeElement.dataset.sort") == "value"
        browser.choose("failed", '[name="outcome"]')
        failed = len(study.evaluations) - len(good)
        wait_until(lambda: browser.texts("#count") == [f"{failed} evaluations"])
        browser.choose("all", '[name="outcome"]')
        browser.find('[name="text"]').send_keys("kind=b")
        b = sum(each.config["kind"] == "b" for each in study.evaluations)
        wait_until(lambda: browser.texts("#count") == [f"{b} evaluations"])
        browser.driver.refresh()  # the address keeps what was chosen
        wait_until(lambda: browser.texts("#count") == [f"{b} evaluations"])
        browser.check_quiet()


def test_a_config_is_opened_from_the_table_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    study = make(tmp_path / "a.study")
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.all("#evaluations tbody a"))
        browser.press("ENTER", "#evaluations tbody a")
        wait_until(lambda: browser.texts("h1") == ["Bracket 0, index 0"])
        assert browser.texts("#verdicts li") == [str(each) for each in study.explain(0, 0)]
        browser.press("ENTER", "header nav a")
        wait_until(lambda: browser.texts("h1") == ["a.study"])
        browser.check_quiet()


def test_the_page_of_a_config_fits_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    place = tmp_path / f"{'a_long_name_' * 12}.study"
    make(place).close()
    browser.look(PHONE)
    with serving(place) as server:
        browser.open(server.url)
        wait_until(lambda: browser.all("#evaluations tbody a"))
        browser.click("#evaluations tbody a")
        wait_until(lambda: browser.texts("h1") == ["Bracket 0, index 0"])
        browser.check_quiet()


def test_focus_in_the_table_survives_an_update(browser: Browser, tmp_path: Path) -> None:
    """A row that has the focus keeps it when the table changes under it."""
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    first, *others = study.ask_all()
    study.tell(first, 0.5)
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#count") == ["1 evaluation"])
        browser.run("document.querySelector('#evaluations tbody a').focus()")
        study.tell_all([(job, 1.0) for job in others])
        wait_until(lambda: len(browser.all("#evaluations tbody tr")) == 5)
        place = f"/configs/{first.bracket}/{first.index}"
        assert browser.run("return document.activeElement.pathname").endswith(place)
        browser.check_quiet()


def test_landmarks_and_names_for_a_screen_reader(browser: Browser, tmp_path: Path) -> None:
    make(tmp_path / "a.study")
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: len(browser.all("figure svg")) == 3)
        assert len(browser.all("main")) == len(browser.all("h1")) == 1
        assert browser.find("html").get_attribute("lang") == "en"
        for section in browser.all("section"):
            title = browser.find(f"#{section.get_attribute('aria-labelledby')}")
            assert title.get_attribute("textContent")
        for chart in browser.all("figure svg"):
            assert chart.get_attribute("role") == "img"
            assert chart.get_attribute("aria-label")
        unnamed = (
            "return [...document.querySelectorAll('input,select')].filter((e) => !e.labels.length)"
        )
        assert browser.run(unnamed) == []
        browser.press("TAB", "body")
        assert browser.run("return document.activeElement.className") == "skip"


def contrast(browser: Browser, selector: str) -> float:
    """How far a text stands out from the page, by the definition of WCAG."""
    code = """
      const light = (colour) => {
        const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
          .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const ink = light(getComputedStyle(document.querySelector(arguments[0])).color);
      const paper = light(getComputedStyle(document.body).backgroundColor);
      return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    """
    return float(browser.driver.execute_script(code, selector))


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_every_look(browser: Browser, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    make(tmp_path / "a.study").deepen("preserving")
    browser.look(size, scheme)
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.all("#evaluations tbody tr"))
        for selector in ("h1", "#state", "#count", "a[href^='/studies']", "figcaption"):
            assert contrast(browser, selector) >= 4.5
        browser.check_quiet()


def test_confirmations_appear_and_lead_to_their_configs(browser: Browser, tmp_path: Path) -> None:
    def again(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        return float(config["lr"]) + context.seed / 2**40

    study = make(tmp_path / "a.study")
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#count") == ["22 evaluations"])
        assert not browser.find("#confirmed-section").is_displayed()
        found = study.confirm(again, top=3, seeds=2)
        header, *rows = confirmation_table(found)
        wait_until(lambda: table(browser, "#confirmed") == rows)
        assert browser.texts("#confirmed thead th") == header
        assert browser.texts("#confirmed-notes") == [" ".join(confirmation_notes(found))]
        assert browser.find("#confirmed-section").is_displayed()
        browser.check_quiet()
        browser.look(PHONE)
        browser.check_quiet()
        browser.click("#confirmed a")
        first = found.configs[0]
        wait_until(lambda: browser.texts("h1") == [f"Bracket {first.bracket}, index {first.index}"])
        browser.check_quiet()


def test_failures_stay_unfolded_and_lead_to_the_output(browser: Browser, tmp_path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> dict[str, float]:
        print("training with", config["lr"])
        if config["kind"] == "b":
            raise ValueError(f"no kind {config['kind']} with {config['lr']}")
        return {"loss": config["lr"] / budget, "accuracy": 1 - config["lr"]}

    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9)
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#count") == ["0 evaluations"])
        assert not browser.find("#failures-section").is_displayed()
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, workers=2, max_cost=9, first_failures=0)
        wait_until(lambda: browser.all("#failures summary"))
        browser.click("#failures summary")
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, workers=2, first_failures=0)
        (group,) = study.failures()
        wait_until(
            lambda: browser.texts("#failures li")[0].startswith(f"{group.count} \u00d7 Value")
        )
        assert browser.find("#failures pre").is_displayed()
        assert browser.texts("#failures pre") == [group.traceback]
        wait_until(lambda: browser.texts("#count") == ["22 evaluations"])
        assert browser.texts("#evaluations thead th")[7] == "accuracy"
        browser.click('[data-sort="m0"]')
        browser.click('[data-sort="m0"]')
        best = f"{max(each.metrics.get('accuracy', 0) for each in study.evaluations):.6g}"
        wait_until(lambda: table(browser, "#evaluations")[0][7] == best)
        browser.check_quiet()
        browser.find("#failures a").click()
        wait_until(lambda: browser.all("pre.output"))
        assert f"training with {group.configs[0]['lr']}" in browser.texts("pre.output")[0]
        browser.check_quiet()


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    place = tmp_path / "<img src=x onerror=alert(9)>.study"
    study = hostile.make(place, workers=2)
    browser.look(size)
    with serving(tmp_path) as server:
        browser.open(server.url)
        browser.check_quiet()
        browser.find("tbody a").click()
        wait_until(lambda: browser.all("#evaluations tbody tr"))
        assert browser.texts("h1") == [place.name]
        assert any("<script>alert(1)</script>" in text for text in browser.texts("#best dt"))
        browser.check_quiet()
        browser.press("ENTER", '[data-sort="p1"]')
        browser.find('[name="text"]').send_keys("<script>")
        wait_until(lambda: "text=" in browser.driver.current_url)  # so it is answered
        assert browser.texts("#count") == [f"{len(study.evaluations)} evaluations"]
        browser.check_quiet()
        browser.press("ENTER", "#evaluations tbody a")
        wait_until(lambda: browser.all("pre.output"))
        assert "<script>alert(1)</script>" in browser.texts("pre.output")[0]
        browser.check_quiet()
    write_report(study, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    wait_until(lambda: browser.run("return [...document.images].every((i) => i.naturalWidth)"))
    browser.check_quiet()


def test_key_figures_curves_and_parameters_are_drawn(browser: Browser, tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, float]:
        for step in range(1, budget + 1):
            context.report(step, config["lr"] + 1 / step)
        return {"loss": config["lr"] + 1 / budget, "accuracy": 1 - config["lr"]}

    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9)
    study.optimize(train)
    best = study.best
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts(".figure.best .value") == [f"{best.value:.6g}"])
        accuracy = f"{best.metrics['accuracy']:.6g}"
        assert browser.texts(".figure.metric .value") == [accuracy]
        assert browser.texts(".figure.progress .value") == ["100 %"]
        assert browser.texts(".figure.cost .value") == ["78 units"]
        assert "per unit" in browser.find(".figure.cost .detail").text
        assert len(browser.all(f"#cell-{best.bracket}-{best.rung} .mark.best")) == 1
        assert "★ best" in browser.find(f"#cell-{best.bracket}-{best.rung}").text
        assert len(browser.all("#curves .series.best")) == 1
        assert browser.find("#reported").is_displayed()
        assert len(browser.all("#reported .series")) >= len(browser.all("#reported .best")) > 0
        assert set(browser.texts("#parallel .axis-name title")) == {"lr", "kind"}
        wait_until(lambda: browser.texts("#importance tbody th")[:1] == ["lr"])
        wait_until(lambda: len(browser.all("#evaluations tr.best")) == 1)
        browser.check_quiet()


def test_a_folder_updates_itself(browser: Browser, tmp_path: Path) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    with serving(tmp_path) as server:
        browser.open(server.url)
        assert browser.texts(".state") == ["5 jobs open"]
        browser.run("window.stayed = true")
        finish(study, noisy(1))
        wait_until(lambda: browser.texts(".state") == ["done"])
        assert f"{study.best.value:.6g}" in browser.find("tbody").text
        assert browser.run("return window.stayed")
        browser.check_quiet()


def test_a_lost_server_is_reported(browser: Browser, tmp_path: Path) -> None:
    make(tmp_path / "a.study")
    with serving(tmp_path / "a.study") as server:
        browser.open(server.url)
        wait_until(lambda: browser.all("#evaluations tbody tr"))
        assert not browser.find("#trouble").is_displayed()
    wait_until(lambda: browser.find("#trouble").is_displayed())
    assert "does not answer" in browser.find("#trouble").text


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_several_objectives_have_a_front(
    browser: Browser, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    place = tmp_path / "a.study"
    study = finished(TWO, {"memory_mb": (None, 500)}, place)
    study.deepen("preserving")
    finish(study, evaluate)
    front = study.front()
    study.close()
    browser.look(size, scheme)
    with serving(place) as server:
        browser.open(server.url)
        wait_until(lambda: browser.texts("#best-title") == ["Front on any budget"])
        wait_until(lambda: len(table(browser, "#evaluations")) > 0)
        assert [row[:2] for row in table(browser, "#best table")] == [
            [f"{value:.6g}" for value in each.objectives.values()] for each in front
        ]
        assert browser.texts("#incumbent-title") == ["Hypervolume"]
        assert len(browser.all("#front .dot.front1")) == len(front)
        assert len(browser.all("#front .series")) == 2
        heads = [text.split()[0] for text in browser.texts("#evaluations thead th")]
        assert heads[5:9] == ["outcome", "seconds", "error", "speed"]
        assert "failed" not in {row[5] for row in table(browser, "#evaluations")}
        browser.choose("infeasible", "#filter [name=outcome]")
        wait_until(lambda: {row[5] for row in table(browser, "#evaluations")} == {"infeasible"})
        browser.check_quiet()
        browser.click("#best table a")
        wait_until(lambda: browser.texts("#verdicts li"))
        browser.check_quiet()
