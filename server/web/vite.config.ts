import {defineConfig} from "vite";

// `npm run dev` serves the sources as they are edited and hands every question on to a running `mc2 serve`.
const service = process.env.MC2_SERVICE ?? "http://127.0.0.1:8471";

export default defineConfig({
  server: {proxy: Object.fromEntries(["/v1", "/livez", "/readyz", "/version", "/metrics"].map((path) => [path, service]))},
  build: {
    target: "es2021",
    assetsInlineLimit: 0, // a data: address is no 'self' to the content policy
    modulePreload: {polyfill: false},
    reportCompressedSize: false,
  },
});
