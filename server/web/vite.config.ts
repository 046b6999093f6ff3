import {readFileSync} from "node:fs";
import {defineConfig} from "vite";

const common = JSON.parse(readFileSync(new URL("../../schemas/common.schema.json", import.meta.url), "utf8"));
const op = common.$defs.op;
const operatorNames = {
  kinds: op.properties.kind.enum,
  poolings: op.properties.tables.properties.pooling.enum,
  poolingKind: op.if.properties.kind.const,
  kindsWithExperts: op.allOf[0].if.properties.kind.enum,
  groupedKinds: op.allOf[1].if.properties.kind.enum,
  columnCutRows: op["x-columnCutRows"],
  dtypes: op.properties.dtype.enum,
};

// `npm run dev` serves the sources as they are edited, and forwards requests for the service to a running `mc2 serve`.
const service = process.env.MC2_SERVICE ?? "http://127.0.0.1:8471";

export default defineConfig({
  define: {operatorNames: JSON.stringify(operatorNames)}, // for kinds.ts
  server: {proxy: Object.fromEntries(["/v1", "/livez", "/readyz", "/version", "/metrics"].map((path) => [path, service]))},
  build: {
    target: "es2021",
    assetsInlineLimit: 0, // no data: addresses, which the page's Content-Security-Policy ('self') forbids
    modulePreload: {polyfill: false},
    reportCompressedSize: false,
  },
});
