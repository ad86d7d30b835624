// What was decided, in words.

/** "after 4 items", and why where the model did not halt by itself. */
export function afterItems(decision) {
  const items = `${decision.read} item${decision.read === 1 ? "" : "s"}`;
  return decision.reason === "halted" ? `after ${items}` : `${decision.reason}, ${items}`;
}

/** A share as a percentage; never 100 % unless it is. */
export function percent(share) {
  const whole = Math.round(share * 100);
  return whole === 100 && share < 0.9995 ? "99 %" : `${whole} %`;
}

/** The name of a label; one that the present models do not have is a question. */
export const labelName = (labels, label) => labels[label] ?? "?";

/** "web 93 %", or that it is not known and what comes closest. */
export function labelText(labels, decision) {
  const closest = `${labelName(labels, decision.label)} ${percent(decision.probability)}`;
  return decision.isKnown ? closest : `unknown (closest: ${closest})`;
}
