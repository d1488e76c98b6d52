// The configs that were evaluated again with other seeds, with means and intervals.

import { byId, element, shown } from "./dom.js";

const INDEX = 2; // the column that leads to the page of the config, after rank and bracket
let drawn = null;

export function drawConfirmations({ confirmed }, study) {
  const now = JSON.stringify(confirmed);
  if (now === drawn) return; // so that selections are kept
  drawn = now;
  byId("confirmed-section").hidden = !confirmed.rows.length;
  const head = confirmed.header.map((name) => element("th", { scope: "col", class: "number" }, name));
  byId("confirmed").replaceChildren(
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...confirmed.rows.map((row) => element("tr", {}, ...cells(row, study)))));
  const more = confirmed.more ? [`And ${shown(confirmed.more)} more: study.confirmations lists all.`] : [];
  byId("confirmed-notes").textContent = [...more, ...confirmed.notes].join(" ");
}

function cells(row, study) {
  const [, bracket, index] = row;
  const link = element("a", { href: `/studies/${study}/configs/${bracket}/${index}`,
    "aria-label": `bracket ${bracket}, index ${index}` }, index);
  return row.map((text, column) => element("td", { class: "number" }, column === INDEX ? link : text));
}
