// What vite.config.ts reads from schemas/common.schema.json.
declare const operatorNames: {kinds: string[]; poolingKind: string; kindsWithExperts: string[]; groupedKinds: string[]; dtypes: string[]};

export const {kinds, dtypes} = operatorNames;

/** Whether a kind asks for tables. */
export const pools = (kind: string) => kind === operatorNames.poolingKind;

/** Whether a rank may hold several experts. */
export const hasExperts = (kind: string) => operatorNames.kindsWithExperts.includes(kind);

/** Whether rows choose experts. */
export const choosesExperts = (kind: string) => operatorNames.groupedKinds.includes(kind);
