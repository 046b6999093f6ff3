// What vite.config.ts reads from schemas/common.schema.json.
declare const operatorNames: {kinds: string[]; poolingKind: string; dtypes: string[]};

export const {kinds, dtypes} = operatorNames;

/** Whether a kind asks for tables. */
export const pools = (kind: string) => kind === operatorNames.poolingKind;
