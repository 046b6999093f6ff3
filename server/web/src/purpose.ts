/** Planning options of GET /v1/plan. */
export const optionNames = [
  "strategy", "alignment", "min_block_rows", "max_block_count", "objective_quantile", "allow_small_gain", "contention",
  "block_overhead_us",
];

/** What a kept plan was tuned for: one variant, or options other than the machine's. Both may be empty. */
export interface Purpose {
  variant: string;
  options: [name: string, value: string][];
}

/** Whether tuning keeps plans for this purpose, so that questions find them. */
export const isTuned = (text: string) => text === "" || /^tuned( |$)/.test(text);

/** Reads a purpose as finder::tuned_purpose writes it: "tuned VARIANT NAME=VALUE, NAME=VALUE", or less. */
export function purposeOf(text: string): Purpose {
  const words = text.split(" ").slice(1); // without "tuned"
  const first = words.findIndex((word) => /^[a-z_]+=/.test(word));
  const count = first < 0 ? words.length : first;
  const settings = words.slice(count).join(" ").split(", ").filter(Boolean);
  return {
    variant: words.slice(0, count).join(" "),
    options: settings.map((setting) => [setting.replace(/=.*/, ""), setting.replace(/^[^=]*=/, "")]),
  };
}

const variantText = (variant: string) => (variant ? [`variant ${variant}`] : []);

/** An option of a purpose as a parameter of GET /v1/plan; null if there is none for it. */
function parameterOf([name, value]: [string, string]): [string, string] | null {
  if (name === "require_significant_gain") return value === "false" ? ["allow_small_gain", "true"] : null;
  if (name === "contention") {
    const factors = ["compute", "communication"].map((lane) => new RegExp(`"${lane}":([^,}]+)`).exec(value)?.[1]);
    return factors.every(Boolean) ? [name, factors.join(",")] : null;
  }
  return optionNames.includes(name) ? [name, value] : null;
}

/** A purpose for people. Stores of earlier releases name options by a digest. */
export function purposeText(text: string | undefined): string {
  if (!text || text === "tuned") return "any question";
  if (/^[0-9a-f]{64}$/.test(text)) return "options of a question";
  if (!isTuned(text)) return text; // another program's
  const {variant, options} = purposeOf(text);
  return [...variantText(variant), ...options.map((option) => (parameterOf(option) ?? option).join("="))].join(", ");
}

/** The parameters of GET /v1/plan that ask for a purpose, and in words what no parameter asks for. */
export function askedFor({variant, options}: Purpose): {parameters: Record<string, string>; missing: string[]} {
  const found = options.map(parameterOf);
  const missing = options.filter((_, i) => found[i] === null).map((option) => option.join("="));
  return {
    parameters: Object.fromEntries(found.filter((parameter) => parameter !== null)),
    missing: [...variantText(variant), ...missing],
  };
}
