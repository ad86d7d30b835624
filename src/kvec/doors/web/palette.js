// Colours: of classes (told apart also by people who see fewer colours; names always stand beside them) and of values.

// after Okabe and Ito; the second eight are lighter or darker kin for models with many labels
const CLASSES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#a94a80", "#a67c00", "#2d8fc4", "#7a4a1f", "#5b6570"],
  dark: ["#4aa8e0", "#f08a3c", "#2fc79b", "#e08fbf", "#e6c34a", "#8fd0f5", "#c79a6b", "#a9b4bf"],
};
const VALUES = {
  light: ["#aab7c8", "#7f8fc9", "#6a5fc0", "#5a2ea6", "#3a0f6e"],
  dark: ["#566477", "#6d7cc0", "#8f83ea", "#b9a0ff", "#eadfff"],
};

const STEPS = 16;

/** The colours of a theme, ready for drawing. */
export function makePalette(theme, styles) {
  const get = (name) => styles.getPropertyValue(`--${name}`).trim();
  const values = Array.from({ length: STEPS }, (_, step) => ramp(VALUES[theme], step / (STEPS - 1)));
  return {
    theme,
    ink: get("ink"),
    muted: get("muted"),
    faint: get("faint"),
    line: get("line"),
    panel: get("panel"),
    accent: get("accent"),
    inside: get("inside"),
    outside: get("outside"),
    bar: get("bar"),
    run: get("run"),
    chosen: get("chosen"),
    classes: CLASSES[theme],
    pale: CLASSES[theme].map((colour) => mix(colour, get("panel"), theme === "dark" ? 0.62 : 0.68)),
    values,
    paleValues: values.map((colour) => mix(colour, get("panel"), 0.6)),
    unknown: get("muted"),
  };
}

/** The colour of a class; after eight they come again. */
export function classColour(palette, label) {
  return label >= 0 ? palette.classes[label % palette.classes.length] : palette.muted;
}

/** The paler colour of a class, for what is over or not needed any more. */
export function paleColour(palette, label) {
  return label >= 0 ? palette.pale[label % palette.pale.length] : palette.run;
}

/** The colour of what was decided: that of its class, or grey where it is not known. */
export function decisionColour(palette, decision) {
  return classColour(palette, decision.isKnown ? decision.label : -1);
}

/** The paler one. */
export function paleDecision(palette, decision) {
  return paleColour(palette, decision.isKnown ? decision.label : -1);
}

/** Black or white, whichever is read better on a colour. */
export function inkOn(colour) {
  return contrast(colour, "#10151b") > contrast(colour, "#ffffff") ? "#10151b" : "#ffffff";
}

/** Contrast of two colours as WCAG has it, 1 to 21. */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** The step of the ramp for a height between 0 and 1. */
export function stepOf(height) {
  return Math.min(STEPS - 1, Math.max(0, Math.round(height * (STEPS - 1))));
}

function channels(colour) {
  return [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
}

function luminance(colour) {
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = channels(colour).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function mix(colour, other, share) {
  const [a, b] = [channels(colour), channels(other)];
  const hex = (c) => Math.round(c).toString(16).padStart(2, "0");
  return `#${a.map((c, i) => hex(c + (b[i] - c) * share)).join("")}`;
}

function ramp(stops, place) {
  const scaled = place * (stops.length - 1);
  const low = Math.min(Math.floor(scaled), stops.length - 2);
  return mix(stops[low], stops[low + 1], scaled - low);
}
