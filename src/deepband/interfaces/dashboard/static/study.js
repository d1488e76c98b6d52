// The page of a study: draws the state that the server sends, again whenever it changes.

import { drawBrackets } from "./brackets.js";
import { drawCurves, drawHypervolume, drawIncumbent, drawReported } from "./charts.js";
import { drawConfirmations } from "./confirmations.js";
import { apart, byId, element, ended, shown } from "./dom.js";
import { drawImportance, drawParallel } from "./parameters.js";
import { drawFailures } from "./failures.js";
import { drawFrontChart, drawFrontTable } from "./front.js";
import { Table } from "./table.js";

const TABLE_PAUSE = 2000; // milliseconds between updates of the table while a study runs
const IMPORTANCE_PAUSE = 60000; // between requests for what takes seconds to compute
const study = document.body.dataset.study;
const table = new Table(study);
let latest = null;
let tableTimer = null;
let importance = { timer: null, evaluations: -1 };

function drawState({ status, objective, updated }) {
  const jobs = `${shown(status.open)} job${status.open === 1 ? "" : "s"} open, ${shown(status.running)} running`;
  const kind = status.running ? "running" : status.done ? "done" : "waiting";
  const parts = [`${status.name} · last update ${timeOf(updated)}`];
  byId("state").replaceChildren(
    element("span", { class: `state ${kind}` }, status.done ? status.end : jobs), " ",
    parts.join(" · "), ...(objective ? [" · ", apart(objective)] : []));
}

// The time on the clock, with the date if that is not today.
function timeOf(seconds) {
  const when = new Date(1000 * seconds);
  const time = when.toLocaleTimeString("en-GB");
  return when.toDateString() === new Date().toDateString() ? time
    : `${when.toLocaleDateString("sv-SE")} ${time}`;
}

function drawFigures({ figures, status }) {
  byId("figures").replaceChildren(...figures.map((figure) => {
    const failed = figure.key === "evaluations" && status.failed;
    const detail = failed ? element("a", { href: "#failures-section", class: "bad" }, figure.detail) : apart(figure.detail);
    const details = [element("dd", { class: "detail" }, detail)];
    if (figure.share !== null) {
      details.unshift(element("dd", {}, element("progress", { max: 1, value: figure.share, "aria-label": figure.label })));
    }
    const value = element("dd", { class: "value", title: figure.value }, apart(figure.value));
    value.style.setProperty("--characters", figure.value.length);
    return element("div", { class: `figure ${figure.key}` },
      element("dt", { title: figure.label }, apart(figure.label)), value, ...details);
  }));
}

function drawBest(overview) {
  const { best, maximize } = overview;
  if (overview.objectives) {
    drawFrontTable(overview, study);
    return;
  }
  if (best === null) {
    byId("best").replaceChildren(element("p", { class: "muted" }, "No evaluation has a finite result yet."));
    return;
  }
  const link = element("a", { href: `/studies/${study}/configs/${best.bracket}/${best.index}` },
    `bracket ${best.bracket}, index ${best.index}`);
  const listed = (pairs) => element("dl", { class: "config" }, ...pairs.map(([name, value]) =>
    element("div", {}, element("dt", {}, ended(name)), element("dd", {}, ended(value)))));
  byId("best").replaceChildren(
    element("p", {}, `${maximize ? "largest value" : "smallest loss"} `, element("strong", {}, shown(best.value)),
      `, with budget ${shown(best.budget)}: `, link),
    listed(best.config), ...(best.metrics.length ? [element("h3", {}, "Metrics"), listed(best.metrics)] : []));
}

function drawQuotes({ quotes, status }) {
  if (!quotes.rows.length) {
    const why = status.done ? "The study cannot be extended further." : "Available when the run is done.";
    byId("quotes").replaceChildren(element("p", { class: "muted" }, why));
    return;
  }
  const words = 2; // the first columns are texts, the others numbers
  const kind = (number) => (number < words ? null : "number");
  const head = quotes.header.map((name, number) => element("th", { scope: "col", class: kind(number) }, name));
  const rows = quotes.rows.map((row, at) => element("tr", { class: at && row[0] !== quotes.rows[at - 1][0] ? "group" : null },
    ...row.map((text, number) => element(number === 1 ? "th" : "td",
      { scope: number === 1 ? "row" : null, class: kind(number) }, text))));
  byId("quotes").replaceChildren(
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "quotes-title" },
      element("table", { class: "quotes" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))),
    element("p", { class: "muted small" }, quotes.notes.join(" ")));
}

async function loadImportance() {
  const answer = await fetch(`/studies/${study}/importance`).catch(() => null);
  if (answer?.ok) drawImportance(await answer.json());
}

// Asks for the importance of parameters at once, and then now and then if there are new results.
function offerImportance({ status }) {
  if (importance.timer || importance.evaluations === status.evaluations) return;
  importance = { evaluations: status.evaluations, timer: setTimeout(() => {
    importance.timer = null;
    if (latest.status.evaluations !== importance.evaluations) offerImportance(latest);
  }, IMPORTANCE_PAUSE) };
  loadImportance();
}

function drawCharts(overview) {
  if (overview.objectives) {
    drawFrontChart(overview);
    drawHypervolume(overview);
  } else drawIncumbent(overview);
  drawCurves(overview);
  drawReported(overview);
  drawParallel(overview);
}

function draw(overview) {
  latest = overview;
  byId("trouble").hidden = true;
  drawState(overview);
  drawFigures(overview);
  drawBrackets(overview, study);
  drawBest(overview);
  drawCharts(overview);
  drawConfirmations(overview, study);
  drawQuotes(overview);
  offerImportance(overview);
  drawFailures(overview, study);
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
addEventListener("resize", () => { if (latest) drawCharts(latest); });
