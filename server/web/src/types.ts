// Written by write_types.py from schemas/; change those.

export const parameters = {
  Limit: {default: 100, minimum: 1, maximum: 1000},
  LlmFirst: {default: 1, minimum: 1, maximum: 65536},
  LlmLast: {default: 16384, minimum: 1, maximum: 65536},
  LlmRanks: {default: 8, minimum: 2, maximum: 65536},
};

export interface Account {
  after_us: number;
  before_us: number;
  between_us: number;
  contention_us: number;
  cutting_us: number;
  lane: "compute" | "communication";
  uncut_us: number;
}

export interface Affine {
  alpha_us: number;
  beta_us_per_x: number;
  family: "affine";
}

export interface Answer {
  schema: "mc2.answer/1";
  digest: Digest;
  epoch: number;
  source: "stored" | "model" | "what_if";
  provenance: "measured" | "interpolated" | "extrapolated" | "analytic";
  created_at: string | null;
  plan: Plan;
  stale?: {
    loss: number;
    best_blocks: string;
    best_variant: string;
    why: string;
  };
}

export interface Certificate {
  bounded_count: number;
  candidate_count: number;
  restriction_cost?: number;
  simulated_count: number;
  text: string;
}

export interface CostStep {
  communication_slowdown: number;
  compute_slowdown: number;
  fixed_us: number;
  run_us: number;
}

export type Counts = number[];

export interface Curve {
  lane: "compute" | "communication" | "local_compute";
  axis: "rows" | "bytes" | "columns";
  family: string;
  formula: string;
  fixed_us: number;
  slowdown: number;
  relative_interval: number;
  is_analytic: boolean;
  valid_min_x: number;
  valid_max_x: number;
  quality: Quality;
  points: CurvePoint[];
  sample_count: number;
  samples: CurveSample[];
}

export interface CurvePoint {
  x: number;
  us: number;
  low_us: number;
  high_us: number;
}

export interface CurveSample {
  x: number;
  us: number;
  residual: number;
  is_co_run: boolean;
  is_outlier: boolean;
}

export interface Curves {
  schema: "mc2.curves/1";
  variant: string;
  variants: string[];
  curves: Curve[];
}

export interface Cut {
  block_rows?: number[];
  block_columns?: number[];
}

export type Digest = string;

export type Drift = null | {
  has_drifted: boolean;
  lanes: LaneDrifts;
};

export interface Estimate {
  high_us: number;
  low_us: number;
  provenance: Provenance;
  reason: string;
  us: number;
}

export interface Excursion {
  end_loss?: number;
  end_value: number;
  flips: Flip[];
  one_percent_value?: number;
}

export interface Experts {
  experts: {
    per_token: number;
    total: number;
  };
  inner: number;
  layer_count: number;
  shared_inner: number;
}

export interface Explanation {
  account: Account;
  bound_text: string;
  losses: Loss[];
  measured?: {
    timeline: Timeline;
    use: Use;
  };
  notes: string[];
  plan: Plan;
  schema: "mc2.explanation/1";
  sensitivity?: Sensitivity;
  use: Use;
}

export interface Exploration {
  schema: "mc2.exploration/1";
  axis: "rows" | "columns";
  axis_length: number;
  first_lane: Lane;
  best: Plan;
  chosen: Plan;
  block_length: number;
  best_length: number;
  lengths: LengthEntry[];
}

export type Fingerprint = Record<string, string>;

export interface Flip {
  best_us: number;
  cut: Cut;
  kept_us?: number;
  kind: "other_lengths" | "other_count" | "cut_or_uncut";
  text: string;
  value: number;
  variant: Variant;
}

export interface History {
  points: HistoryPoint[];
  schema: "mc2.history/1";
}

export interface HistoryPoint {
  moment: string;
  numbers: Record<string, number>;
}

export interface ImportReport {
  schema: "mc2.import_report/1";
  format: string;
  took_count: number;
  skipped_count: number;
  bad_count: number;
  lines: {
    verdict: "took" | "skipped" | "bad";
    what: string;
    count: number;
    runs: number[][];
    last_line: number;
  }[];
  every_line?: ([number, "took" | "skipped" | "bad", string])[];
  left_out_count?: number;
  questions: string[];
  notes: string[];
  drift: Drift;
  samples: null | {
    digests: Digest[];
    op: Op;
    machine: Digest;
    device: string;
    sample_count: number;
    measurements: Digest[];
  };
}

export interface Interpolated {
  family: "interpolated";
  knots: {
    time_us: number;
    x: number;
  }[];
}

export interface Interval {
  high: number;
  low: number;
}

export type Kind = "matmul_all_reduce" | "matmul_reduce_scatter" | "all_gather_matmul" | "matmul_all_to_all" | "all_to_all_matmul" | "embedding_all_to_all" | "all_gather_grouped_matmul" | "grouped_matmul_reduce_scatter" | "grouped_matmul_all_reduce";

export type Lane = "compute" | "communication";

export type LaneDrifts = {
  variant: string;
  component: "matmul" | "collective";
  sample_count: number;
  median_residual: number;
  limit: number;
  has_drifted: boolean;
}[];

export interface LaneUse {
  after_us: number;
  before_us: number;
  between_us: number;
  busy_us: number;
}

export interface Latent {
  key_columns: number;
  key_value_rank: number;
  query_columns: number;
  query_rank: number;
  value_columns: number;
}

export interface LengthEntry {
  block_length: number;
  odd_blocks: number[];
  block_count: number;
  cut: string;
  variant: string;
  makespan_us: number;
  low_us: number;
  high_us: number;
}

export interface List {
  schema: "mc2.plan_list/1" | "mc2.model_list/1" | "mc2.sample_list/1" | "mc2.measurement_list/1";
  next: number | null;
  items: Listed[];
}

export interface Listed {
  digest: Digest;
  machine: string;
  op: Op;
  purpose?: string;
  created_at: string;
  result?: PlanResult;
}

export interface Llm {
  architecture: string;
  name: string;
  text: string;
}

export interface LlmConfig {
  architecture: string;
  dense_layer_count: number;
  dtype: "f32" | "f16" | "bf16" | "i8" | "f8e4m3";
  experts?: Experts;
  has_gate: boolean;
  head_columns?: number;
  heads: number;
  hidden: number;
  key_value_heads?: number;
  latent?: Latent;
  layer_count: number;
  mlp_inner?: number;
}

export interface LlmList {
  schema: "mc2.llm_list/1";
  items: Llm[];
}

export interface LlmPlan {
  config?: LlmConfig;
  fingerprint: Fingerprint;
  first_tokens: number;
  last_tokens: number;
  name: string;
  ranks: number;
  rest: LlmRest[];
  schema: "mc2.llm_plan/1";
  sites: LlmSite[];
  steps: LlmStep[];
}

export interface LlmPoint {
  benefit_interval?: Interval;
  compute_us: number;
  cut: Cut;
  fused: Estimate;
  op: Op;
  serial_us: number;
  tokens: number;
  variant: Variant;
}

export interface LlmRest {
  what: string;
  why: string;
}

export interface LlmRun {
  first_tokens: number;
  last_tokens: number;
  least_benefit: number;
  most_benefit: number;
}

export interface LlmSite {
  count: number;
  fused: LlmRun[];
  kind: Kind;
  layer: string;
  op?: Op;
  points: LlmPoint[];
  ranges?: PlanRanges;
  reason?: string;
}

export interface LlmStep {
  benefit_interval?: Interval;
  form: "all_reduce" | "sequence_parallel";
  fused: Estimate;
  missing: string[];
  serial_us: number;
  tokens: number;
}

export interface Loss {
  difference?: Account;
  lost_us: number;
}

export interface Machine {
  digest: Digest;
  label: string;
  fields: Record<string, string>;
}

export interface MachineList {
  schema: "mc2.fingerprint_list/1";
  items: Machine[];
}

export interface Model {
  anchored_interval?: number;
  fingerprint: Fingerprint;
  op: Op;
  schema: "mc2.cost_model/1";
  serial?: {
    compute_us: number;
    variant: Variant;
  };
  source: string;
  variants: VariantCost[];
}

export interface ModelCurve {
  axis: "rows" | "bytes" | "columns";
  is_analytic: boolean;
  quality: Quality;
  relative_interval: number;
  shape: Affine | Piecewise | Segments | Staircase | Interpolated;
  valid_max_x: number;
  valid_min_x: number;
}

export interface ModelLane {
  curve: ModelCurve;
  fixed_us: number;
  slowdown: number;
  slowdown_interval?: number;
  start_us?: number;
  start_interval?: number;
}

export interface Op {
  dtype: "f32" | "f16" | "bf16" | "i8" | "f8e4m3";
  epilogue?: "bias" | "residual" | "bias+residual" | "rms_norm" | "bias+rms_norm" | "residual+rms_norm" |
    "bias+residual+rms_norm";
  experts?: {
    count: number;
    top_k: number;
  };
  experts_per_rank?: number;
  k: number;
  kind: "matmul_all_reduce" | "matmul_reduce_scatter" | "all_gather_matmul" | "matmul_all_to_all" | "all_to_all_matmul"
    | "embedding_all_to_all" | "all_gather_grouped_matmul" | "grouped_matmul_reduce_scatter" |
    "grouped_matmul_all_reduce";
  m: number;
  n: number;
  tables?: {
    count: number;
    pooling: "sum" | "mean";
    row_count: number;
  };
  world_size: number;
}

export interface Parameter {
  higher: Excursion;
  lower: Excursion;
  parameter: "compute_time" | "communication_time" | "communication_latency" | "compute_slowdown" |
    "communication_slowdown" | "compute_block_fixed" | "communication_block_fixed" | "rows" | "columns" | "imbalance";
  relative_interval: number;
  text: string;
  unit: "x" | "us" | "rows" | "columns";
  value: number;
}

export interface Piecewise {
  family: "piecewise";
  knot_x: number;
  l0: number;
  l1: number;
  q0: number;
  q1: number;
  q2: number;
  scale_x: number;
}

export interface Plan {
  benefit_interval?: {
    high: number;
    low: number;
  };
  bound: "compute" | "communication";
  certificate?: Certificate;
  communication_us: number;
  compute_us: number;
  cut: Cut;
  fingerprint: Fingerprint;
  ideal_us: number;
  is_local_first?: boolean;
  is_serial?: boolean;
  makespan: Estimate;
  op: Op;
  reason: string;
  recipe: RecipeStep[];
  counts?: Counts;
  runners_up: RunnerUp[];
  schema: "mc2.plan/1";
  serial_us: number;
  slowdown: Slowdown;
  block_overhead_us?: number;
  strategy: string;
  timeline: Timeline;
  validation?: Validation;
  variant: Variant;
}

export interface PlanRanges {
  fingerprint: Fingerprint;
  first_m: number;
  gaps: {
    first_m: number;
    last_m: number;
    reason: string;
  }[];
  op: Op;
  planned_count: number;
  ranges: Range[];
  schema: "mc2.plan_ranges/1";
}

export interface PlanResult {
  cut: string;
  variant: string;
  is_measured: boolean;
  fused_us: number;
  serial_us: number;
  benefit: number;
}

export interface Problem {
  type: "about:blank";
  title: string;
  status: number;
  detail: string;
  code: string;
  field?: string;
  report?: ImportReport;
  request_id: string;
}

export type Provenance = "measured" | "interpolated" | "extrapolated" | "analytic";

export interface Quality {
  cross_validated_rms: number;
  point_count: number;
  reason: string;
  relative_rms: number;
  relative_worst: number;
}

export interface Race {
  cut: string;
  variant: string;
  is_of_plan: boolean;
  fused_us: number;
  serial_us: number;
  compute_us: number;
  communication_us: number;
  predicted_us: number;
  benefit: number;
  benefit_low: number;
  benefit_high: number;
  pair_count: number;
}

export interface Races {
  schema: "mc2.race_list/1";
  anchored: Plan | null;
  first_lane: Lane;
  machine: Digest;
  items: Race[];
}

export interface Range {
  benefit_interval?: {
    high: number;
    low: number;
  };
  first_m: number;
  last_m: number;
  least_benefit: number;
  loss: number;
  most_benefit: number;
  provenance: Provenance;
  rule: Rule;
}

export interface RecipeStep {
  name: string;
  text: string;
  unit: string;
  value: number;
}

export interface Rule {
  block_length: number;
  is_local_first?: boolean;
  is_odd_first: boolean;
  is_serial?: boolean;
  min_odd_length: number;
  variant: Variant;
}

export interface RunnerUp {
  cut: Cut;
  makespan_us: number;
  reason: string;
  variant: Variant;
}

export interface Segments {
  family: "segments";
  knots_x: number[];
  pieces: {
    q0: number;
    q1: number;
    q2: number;
  }[];
  scale_x: number;
}

export interface Sensitivity {
  best_cut: Cut;
  best_us: number;
  best_variant: Variant;
  kept_us: number;
  parameters: Parameter[];
}

export interface Slowdown {
  first: number;
  second: number;
}

export interface Span {
  end_us: number;
  start_us: number;
}

export interface Spread {
  fused_high_us: number;
  fused_low_us: number;
  serial_high_us: number;
  serial_low_us: number;
  speed_range: number;
}

export interface Staircase {
  alpha_us: number;
  beta_us_per_x: number;
  family: "staircase";
  period_source: string;
  period_x: number;
  step_us: number;
}

export type Texts = Record<string, string>;

export interface Timeline {
  first: Span[];
  makespan_us: number;
  overlap_us: number;
  second: Span[];
}

export interface Use {
  first: LaneUse;
  overlap_us: number;
  second: LaneUse;
}

export interface Validation {
  benefit: number;
  benefit_high: number;
  benefit_low: number;
  fused_us: number;
  measured_at?: string;
  pair_count: number;
  serial_us: number;
  spread?: Spread;
}

export interface Variant {
  fields: Texts;
  name: string;
}

export interface VariantCost {
  communication: ModelLane;
  compute: ModelLane;
  local_compute?: ModelCurve;
  open_steps?: CostStep[];
  run_us?: number;
  variant: Variant;
}
