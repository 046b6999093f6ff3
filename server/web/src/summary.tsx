import {benefit, cutText, date, percent, sentence, time, variantText} from "./format";
import type {ComponentChildren} from "preact";
import type {Plan, Race} from "./types";

const interval = (low: number, high: number, text: (value: number) => string) => ` (${text(low)} to ${text(high)})`;

/** Measured values of a plan: from the race that it won, else from the last race in which its cut and variant ran. */
export type Measured = Pick<Race, "fused_us" | "serial_us" | "benefit" | "benefit_low" | "benefit_high" | "pair_count"> &
  Partial<Pick<NonNullable<Plan["validation"]>, "spread" | "measured_at">>;

export const measuredOf = (plan: Plan, races: Race[] = []): Measured | undefined =>
  plan.validation ?? races.filter((race) => race.is_of_plan).pop();

function measuredText({fused_us, serial_us, spread, measured_at}: Measured): string {
  const fused = time(fused_us) + (spread ? interval(spread.fused_low_us, spread.fused_high_us, time) : "");
  const serial = time(serial_us) + (spread ? interval(spread.serial_low_us, spread.serial_high_us, time) : "");
  const when = measured_at ? `, ${date(measured_at)}` : "";
  return serial_us > 0 ? `${fused}, serial ${serial}${when}` : `${fused}${when}`;
}

/** Predicted and measured values of a plan. `otherwise` is the text for a plan that was not measured. */
export function planFacts(
  plan: Plan,
  measured: Measured | undefined,
  otherwise = "not run yet",
): [name: string, value: ComponentChildren][] {
  const {makespan, benefit_interval: gains} = plan;
  const hasGain = measured && measured.serial_us > 0;
  return [
    ["Blocks", cutText(plan.cut)],
    ["Variant", variantText(plan.variant)],
    ["Predicted", time(makespan.us) + interval(makespan.low_us, makespan.high_us, time)],
    ["Measured", measured ? measuredText(measured) : otherwise],
    ["Predicted serial", time(plan.serial_us)],
    ["Predicted gain", percent(benefit(plan)) + (gains ? interval(gains.low, gains.high, percent) : "")],
    [
      "Measured gain",
      hasGain
        ? percent(measured.benefit) + interval(measured.benefit_low, measured.benefit_high, percent) + `, ${measured.pair_count} pairs`
        : "–",
    ],
    ["Prediction", `${makespan.provenance}: ${sentence(makespan.reason)}`],
  ];
}
