// vite.config.ts defines this from schemas/common.schema.json.
declare const operatorNames: {
  kinds: string[];
  poolings: string[];
  poolingKind: string;
  kindsWithExperts: string[];
  groupedKinds: string[];
  columnCutRows: Record<string, number>;
  dtypes: string[];
};

export const {kinds, dtypes, poolings} = operatorNames;

/** Whether operators of a kind have embedding tables. */
export const pools = (kind: string) => kind === operatorNames.poolingKind;

/** Whether a rank may hold several experts in operators of a kind. */
export const hasExperts = (kind: string) => operatorNames.kindsWithExperts.includes(kind);

/** Whether each row chooses experts in operators of a kind. */
export const choosesExperts = (kind: string) => operatorNames.groupedKinds.includes(kind);

/** Up to this many rows, blocks of a kind are columns. */
export const maxColumnCutRows = (kind: string) => operatorNames.columnCutRows[kind] ?? 0;
