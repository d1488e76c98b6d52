// Why evaluations failed: one entry per error, with its jobs and a traceback to unfold.

import { apart, byId, element, shown } from "./dom.js";

let drawn = null;

export function drawFailures({ failures }, study) {
  const now = JSON.stringify(failures);
  if (now === drawn) return; // so that selections are kept
  drawn = now;
  const list = byId("failures");
  const unfolded = new Set([...list.querySelectorAll("details[open]")].map((each) => each.dataset.error));
  byId("failures-section").hidden = !failures.failed;
  list.replaceChildren(...failures.groups.map((group) => entry(group, study, unfolded.has(group.error))));
  byId("failures-others").textContent = failures.others
    ? `and ${shown(failures.others)} other error${failures.others === 1 ? "" : "s"}: deepband failures` : "";
}

function entry(group, study, open) {
  const vary = group.messages > 1 ? [element("span", { class: "muted" }, " (numbers vary)")] : [];
  const title = [`${shown(group.count)} × `, element("span", { class: "bad" }, apart(group.error)), ...vary];
  const links = group.jobs.flatMap(([bracket, index, rung]) => [
    element("a", { href: `/studies/${study}/configs/${bracket}/${index}`,
      "aria-label": `bracket ${bracket}, index ${index}, rung ${rung}` }, `${bracket}, ${index}, ${rung}`), " · "]);
  const jobs = element("p", { class: "muted" }, "bracket, index, rung: ", ...links.slice(0, -1),
    group.more ? ` and ${shown(group.more)} more` : "");
  if (!group.traceback) return element("li", {}, ...title, jobs);
  return element("li", {}, ...title, jobs, element("details", { open, "data-error": group.error },
    element("summary", {}, "Traceback of the first one"),
    element("pre", { tabindex: 0 }, group.traceback)));
}
