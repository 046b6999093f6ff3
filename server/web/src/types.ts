// The answers of the service, as schemas/ describes them; only what the dashboard shows.

export interface Op {
  kind: string;
  m: number;
  n: number;
  k: number;
  dtype: string;
  world_size: number;
  epilogue?: string;
  tables?: {count: number; row_count: number; pooling: string};
}

export interface Variant {
  name: string;
  fields: Record<string, string>;
}

export interface Cut {
  block_rows?: number[];
  block_columns?: number[];
}

export interface Span {
  start_us: number;
  end_us: number;
}

export interface Timeline {
  first: Span[];
  second: Span[];
  makespan_us: number;
  overlap_us: number;
}

export type Lane = "compute" | "communication";

export interface Plan {
  op: Op;
  fingerprint: Record<string, string>;
  strategy: string;
  variant: Variant;
  cut: Cut;
  is_local_first?: boolean;
  benefit_interval?: {low: number; high: number};
  makespan: {us: number; low_us: number; high_us: number; provenance: string; reason: string};
  serial_us: number;
  compute_us: number;
  communication_us: number;
  ideal_us: number;
  bound: Lane;
  timeline: Timeline;
  runners_up: {cut: Cut; variant: Variant; makespan_us: number; reason: string}[];
  certificate?: {text: string};
  validation?: {
    fused_us: number;
    serial_us: number;
    benefit: number;
    benefit_low: number;
    benefit_high: number;
    pair_count: number;
    measured_at?: string;
    spread?: {
      fused_low_us: number;
      fused_high_us: number;
      serial_low_us: number;
      serial_high_us: number;
      speed_range: number;
    };
  };
  reason: string;
}

export interface Answer {
  plan: Plan;
  source: string;
  provenance: string;
  digest: string;
  epoch: number;
  created_at: string | null;
}

export interface Listed {
  digest: string;
  machine: string;
  op: Op;
  purpose?: string;
  created_at: string;
}

export interface List {
  items: Listed[];
  next: number | null;
}

export interface Machine {
  digest: string;
  label: string;
  fields: Record<string, string>;
}

export interface LengthEntry {
  block_length: number;
  block_count: number;
  cut: string;
  variant: string;
  makespan_us: number;
  low_us: number;
  high_us: number;
}

export interface Exploration {
  axis: "rows" | "columns";
  axis_length: number;
  first_lane: Lane;
  block_length: number;
  best: Plan;
  chosen: Plan;
  lengths: LengthEntry[];
}

export interface Model {
  op: Op;
  fingerprint: Record<string, string>;
  source: string;
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

export interface Curve {
  lane: string;
  axis: "rows" | "columns" | "bytes";
  family: string;
  formula: string;
  fixed_us: number;
  slowdown: number;
  relative_interval: number;
  is_analytic: boolean;
  valid_min_x: number;
  valid_max_x: number;
  quality: {
    point_count: number;
    relative_rms: number;
    relative_worst: number;
    cross_validated_rms: number;
    reason: string;
  };
  points: CurvePoint[];
  samples: CurveSample[];
  sample_count: number;
}

export interface Curves {
  variant: string;
  variants: string[];
  curves: Curve[];
}

export interface Account {
  lane: Lane;
  uncut_us: number;
  before_us: number;
  between_us: number;
  after_us: number;
  contention_us: number;
  cutting_us: number;
}

export interface Explanation {
  plan: Plan;
  account: Account;
  bound_text: string;
  losses: {lost_us: number}[];
  notes: string[];
  sensitivity?: {parameters: {parameter: string; text: string}[]};
}

export interface Race {
  is_of_plan: boolean;
  cut: string;
  variant: string;
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
  anchored: Plan | null;
  first_lane: Lane;
  items: Race[];
  machine: string;
}

export interface Problem {
  status: number;
  title: string;
  detail: string;
  field?: string;
  request_id?: string;
}
