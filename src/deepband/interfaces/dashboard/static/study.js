// The page of a study: draws the state that the server sends, again whenever it changes.

import { drawBrackets } from "./brackets.js";
import { drawCurves, drawIncumbent } from "./charts.js";
import { apart, byId, element, shown } from "./dom.js";
import { Table } from "./table.js";

const TABLE_PAUSE = 2000; // milliseconds between updates of the table while a study runs
const study = document.body.dataset.study;
const table = new Table(study);
let latest = null;
let tableTimer = null;

function drawState({ status, objective }) {
  const parts = [
    status.name,
    status.done ? "done" : `${shown(status.open)} jobs open, ${shown(status.running)} running`,
    `${shown(status.evaluations)} evaluations${status.failed ? `, ${shown(status.failed)} failed` : ""}`,
    `budget ${shown(status.spent)} spent in this run, ${shown(status.left)} left`,
  ];
  if (status.ahead) parts.push(`${shown(status.ahead)} ahead for the next deepening`);
  byId("state").replaceChildren(parts.join(" · "), ...(objective ? [" · ", apart(objective)] : []));
}

function drawBest({ best, maximize }) {
  if (best === null) {
    byId("best").replaceChildren(element("p", { class: "muted" }, "No evaluation has a finite loss yet."));
    return;
  }
  const link = element("a", { href: `/studies/${study}/configs/${best.bracket}/${best.index}` },
    `bracket ${best.bracket}, index ${best.index}`);
  const pairs = best.config.map(([name, value]) =>
    element("div", {}, element("dt", {}, apart(name)), element("dd", {}, apart(value))));
  byId("best").replaceChildren(
    element("p", {}, `${maximize ? "largest value" : "smallest loss"} ${shown(best.value)}, with budget ${shown(best.budget)}: `, link),
    element("dl", { class: "config" }, ...pairs));
}

function drawQuotes({ quotes, status }) {
  if (!quotes.length) {
    const why = status.done ? "The study cannot be extended further." : "Available when the run is done.";
    byId("quotes").replaceChildren(element("p", { class: "muted" }, why));
    return;
  }
  byId("quotes").replaceChildren(...quotes.map((quote) => element("div", {},
    element("h3", {}, quote.title),
    element("table", {}, element("tbody", {}, ...quote.lines.map(([name, text]) =>
      element("tr", {}, element("th", { scope: "row" }, name.trim()), element("td", {}, text))))))));
}

function draw(overview) {
  latest = overview;
  byId("trouble").hidden = true;
  drawState(overview);
  drawBrackets(overview, study);
  drawBest(overview);
  drawIncumbent(overview);
  drawCurves(overview);
  drawQuotes(overview);
  table.offer(overview);
  tableTimer ??= setTimeout(() => { tableTimer = null; table.load(); }, table.asked ? TABLE_PAUSE : 0);
}

function reportError(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
}

const events = new EventSource(`/studies/${study}/events`);
events.addEventListener("overview", (event) => draw(JSON.parse(event.data)));
events.addEventListener("trouble", (event) => reportError(JSON.parse(event.data)));
events.addEventListener("error", () => reportError("The server does not answer. This page may be out of date."));
addEventListener("pagehide", () => events.close());
addEventListener("resize", () => {
  if (latest) { drawIncumbent(latest); drawCurves(latest); }
});
