// Elements made in one breath.

/** An element with properties (also dataset and aria-*) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** A number as people read it. */
export const number = (value, digits = 0) =>
  Number.isFinite(value)
    ? value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits })
    : "–";

/** A value of an item in words: "size 1460, direction 0". */
export function valueText(value) {
  if (value === null || typeof value !== "object") return String(value ?? "–");
  return Object.entries(value)
    .map(([name, one]) => `${name} ${one ?? "missing"}`)
    .join(", ");
}
