// Creating elements. Text is always inserted as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Isolates the writing direction of a user's text.
export function apart(text) {
  return element("bdi", {}, text);
}

// A long name without its middle: long names often differ only at their ends.
export function short(text, most) {
  const end = Math.floor(most / 3);
  return text.length > most ? `${text.slice(0, most - 1 - end)}…${text.slice(-end)}` : text;
}

export function shown(number, digits = 6) {
  if (typeof number !== "number") return number === null ? "" : String(number);
  return Number.isInteger(number) ? number.toLocaleString("en") : String(Number(number.toPrecision(digits)));
}
