// The dashboard in a real browser: what it shows is what the service answers, whatever is typed, pressed or kept.
//
// Run as: MC2=PATH_OF_MC2 MC2_PACKAGES=PATH_OF_package.json node --test dashboard_test.mjs
import assert from "node:assert/strict";
import {execFileSync, spawn} from "node:child_process";
import {existsSync, mkdtempSync, readFileSync, rmSync} from "node:fs";
import {createRequire} from "node:module";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {after, before, beforeEach, describe, it} from "node:test";

const {MC2, MC2_PACKAGES} = process.env;
const require = createRequire(MC2_PACKAGES);
const {chromium} = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const source = new URL("../..", import.meta.url).pathname;
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browserFlags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

const directory = mkdtempSync(join(tmpdir(), "mc2-dashboard-"));
const store = join(directory, "store.db");
const hostile = `<img src=x onerror="window.hacked=1">'"&<script>window.hacked=1</script>`;

let service, browser, base, page, complaints;

function mc2(...options) {
  return execFileSync(MC2, [...options, "--store", store], {env: {...process.env, HOME: directory, XDG_DATA_HOME: directory}, stdio: "pipe"});
}

/** A service with a store, and where it is asked. */
async function startService(store, ...options) {
  const child = spawn(MC2, ["serve", "--port", "0", "--access-log", "false", "--history-interval", "1", "--store", store, ...options],
    {stdio: ["ignore", "ignore", "pipe"]});
  let said = "";
  for await (const part of child.stderr) {
    said += part;
    const found = /on (http:\/\/\S+:\d+)\n/.exec(said);
    if (found) return [child, found[1]];
  }
  throw new Error(`mc2 serve: ${said}`);
}

async function stop(child) {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

async function api(path, body) {
  const response = await fetch(base + path, body && {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  assert.ok(response.ok, `${path}: ${response.status} ${response.ok ? "" : await response.text()}`);
  return response.json();
}

/** Plans for further sizes, so that a list has pages; a model and a plan with names that mean mischief. */
async function fillStore() {
  mc2("db", "import", join(source, "data/h200_x4/store.json"));
  mc2("tune", "--m", "96", "--n", "64", "--k", "64", "--link", "1Gbit,20us", "--virtual-compute", "1Gflops,5us", "--budget", "5",
    "--max-samples", "5", "--align", "16");
}

async function fillService() {
  const {items} = await api("/v1/models?op=matmul_all_reduce&n=8192&k=7168&m=8192");
  for (let m = 1; m <= 25; ++m) {
    const {plan} = await api(`/v1/plan?op=matmul_all_reduce&m=${128 * m}&n=8192&k=7168&dtype=bf16&ranks=4&machine=${items[0].machine}`);
    await api("/v1/plans", plan);
  }
  const model = await api(`/v1/models/${items[0].digest}`);
  model.fingerprint = {...model.fingerprint, gpu_model: hostile, [hostile]: hostile};
  model.variants[0].variant.name = hostile;
  model.source = hostile;
  const kept = await api("/v1/models", model);
  const {best} = await api(`/v1/models/${kept.digest}/exploration`);
  await api("/v1/plans", {...best, reason: hostile});
}

/** A page that collects everything that a browser complains of. */
async function newPage(options = {}) {
  const context = await browser.newContext({viewport: {width: 1100, height: 900}, ...options});
  const opened = await context.newPage();
  opened.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  opened.on("pageerror", (error) => complaints.push(String(error)));
  opened.unanswered = new Set();
  opened.on("request", (request) => {
    if (!request.url().endsWith("/v1/changes")) opened.unanswered.add(request); // which has no end
  });
  for (const end of ["requestfinished", "requestfailed"]) opened.on(end, (request) => opened.unanswered.delete(request));
  return opened;
}

/** Until every question that a page has asked is answered, and those that the answers led to. */
async function settle(on) {
  const deadline = Date.now() + 30_000;
  for (let calm = 0; calm < 3; calm = on.unanswered.size > 0 ? 0 : calm + 1) {
    assert.ok(Date.now() < deadline, `unanswered after 30 s: ${[...on.unanswered].map((request) => request.url()).join(", ")}`);
    await on.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 5))));
  }
}

async function open(hash, on = page) {
  await on.goto("about:blank"); // so that only the part behind "#" being another one loads it, too
  on.unanswered.clear(); // the browser may tell no end of what the page that was left had asked
  await on.goto(`${base}/#/${hash}`);
  await on.locator("h1").waitFor();
  await settle(on);
}

/** As format.ts writes a time. */
function time(us) {
  const rounded = (value) => value.toLocaleString("en", {maximumSignificantDigits: 4, useGrouping: false});
  if (us >= 1e6) return `${rounded(us / 1e6)} s`;
  return us >= 1e4 ? `${rounded(us / 1e3)} ms` : `${rounded(us)} µs`;
}

/** As format.ts writes the service's "us". */
const sentence = (text) => text.replace(/(\d )us\b/g, "$1µs");

const textOf = (selector, on = page) => on.locator(selector).first().innerText();
const shownMakespan = () => textOf("[data-testid=makespan]");
const waitForMakespan = (us) =>
  page.waitForFunction((text) => document.querySelector("[data-testid=makespan]")?.textContent === text, time(us), {timeout: 5000});

/** The kept model of all_gather_matmul that the what-if tests drag, as question and as digest. */
async function gatherModel() {
  const {items} = await api("/v1/models?op=all_gather_matmul&m=8192&n=7168&k=8192");
  const {digest, machine} = items[0];
  return {digest, question: `?op=all_gather_matmul&m=8192&n=7168&k=8192&dtype=bf16&ranks=4&machine=${machine}`};
}

const allPages = async () => {
  const plan = (await api("/v1/plans?op=all_gather_matmul&limit=1")).items[0].digest;
  const model = (await api("/v1/models?op=all_gather_matmul&limit=1")).items[0].digest;
  const {machine} = (await api("/v1/models?op=all_gather_matmul&limit=1")).items[0];
  const whole = `llms?llm=Llama-3-8B&ranks=4&first_m=1024&m=2048&machine=${machine}`;
  return ["", "plans", `plans/${plan}`, "models", `models/${model}`, whole, "machines", "health"];
};

describe("the dashboard", {skip: !browserPath && "there is no Chromium here"}, () => {
  before(async () => {
    await fillStore();
    [service, base] = await startService(store);
    await fillService();
    browser = await chromium.launch({executablePath: browserPath, args: browserFlags});
  });

  after(async () => {
    await browser?.close();
    if (service) await stop(service);
    rmSync(directory, {recursive: true, force: true});
  });

  beforeEach(async () => {
    complaints = [];
    if (page) await page.context().close();
    page = await newPage();
  });

  it("answers a question as the service does", async () => {
    const {question} = await gatherModel();
    await open(question);
    const {plan, digest} = await api(`/v1/plan${question}`);
    const card = await textOf("[aria-labelledby=answer-title]");
    const {fused_us, serial_us} = plan.validation;
    for (const expected of [time(plan.makespan.us), time(plan.serial_us), time(fused_us), time(serial_us), plan.reason, digest.slice(0, 12)])
      assert.ok(card.includes(expected), `${expected} is not in: ${card}`);
    // Another question, typed and sent with the keyboard alone, which stays where it was.
    await page.getByLabel("m", {exact: true}).first().fill("4096");
    await page.keyboard.press("Enter");
    const other = (await api(`/v1/plan${question.replace("m=8192", "m=4096")}`)).plan;
    await page.getByText(time(other.makespan.us)).first().waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.value), "4096");
    // And back to the first.
    await page.goBack();
    await page.getByText(plan.reason).first().waitFor();
    assert.equal(await page.getByLabel("m", {exact: true}).first().inputValue(), "8192");
    // A kept one fills in the whole form.
    const kept = await page.getByRole("option", {name: "matmul_all_reduce m=96 n=64 k=64 f32 x2"}).textContent();
    const {label} = (await api("/v1/fingerprints")).items.find(({fields}) => fields.emulation);
    assert.ok(kept.endsWith(label), "machines are told apart");
    await page.getByLabel("A kept operator").selectOption(kept);
    await page.getByRole("button", {name: "Take it"}).click();
    await page.waitForFunction(() => location.hash.includes("op=matmul_all_reduce&m=96&n=64&k=64"));
    await page.waitForFunction(() => document.querySelector("form.question input").value === "96");
    assert.deepEqual(complaints, []);
  });

  it("shows a refusal in the service's own words", async () => {
    const {question} = await gatherModel();
    const refused = question.replace("n=7168", "n=716800");
    await open(refused);
    const problem = await (await fetch(`${base}/v1/plan${refused}`)).json();
    assert.ok((await textOf("[role=alert]")).includes(problem.detail));
    assert.equal(complaints.length, 1, "the browser itself notes a 404, once"); // and nothing else
  });

  it("follows every slider, by the service's numbers", async () => {
    const {digest, question} = await gatherModel();
    await open(question);
    const explore = (change) => api(`/v1/models/${digest}/exploration${change}`);
    const kept = await explore("");
    await waitForMakespan(kept.chosen.makespan.us);

    await page.getByRole("slider", {name: "Link speed"}).focus();
    for (let step = 0; step < 8; ++step) await page.keyboard.press("ArrowLeft"); // a quarter of a power of two each
    const speed = 2 ** -2; // so slow that no matmul hides the link
    const slower = await explore(`?link_speed=${speed}`);
    await waitForMakespan(slower.chosen.makespan.us);
    assert.notEqual(time(slower.chosen.makespan.us), time(kept.chosen.makespan.us));
    assert.equal(await textOf("[data-testid=serial]"), time(slower.chosen.serial_us));

    await page.getByRole("slider", {name: "m", exact: true}).focus();
    await page.keyboard.press("ArrowRight");
    const longer = await explore(`?link_speed=${speed}&m=8704`); // 8192 + 8192 / 16
    await waitForMakespan(longer.chosen.makespan.us);

    const length = page.getByRole("slider", {name: "Block length"});
    await length.focus();
    await page.keyboard.press("Home");
    const shortest = longer.lengths[0];
    await waitForMakespan(shortest.makespan_us);
    const cut = await explore(`?link_speed=${speed}&m=8704&block_length=${shortest.block_length}`);
    const bars = await page.locator(".timeline").first().locator("g[data-row=communication] rect").count();
    assert.equal(bars, cut.chosen.cut.block_rows.length);
    const odd = shortest.odd_blocks.length ? `, odd block ${shortest.odd_blocks}` : "";
    assert.equal(await length.getAttribute("aria-valuetext"), `${shortest.block_length}${odd}`);

    // There and back again is what was before; the best is one of the places.
    const at = longer.lengths.findIndex(({block_length}) => block_length === longer.best_length);
    for (let step = 0; step < at; ++step) await page.keyboard.press("ArrowRight");
    await waitForMakespan(longer.best.makespan.us);
    assert.ok((await length.getAttribute("aria-valuetext")).endsWith(", the best"));
    await page.keyboard.press("ArrowRight");
    await waitForMakespan(longer.lengths[at + 1].makespan_us);
    await page.keyboard.press("ArrowLeft");
    await waitForMakespan(longer.best.makespan.us);

    await page.getByRole("button", {name: "Reset"}).click();
    await waitForMakespan(kept.chosen.makespan.us);
    assert.deepEqual(complaints, []);
  });

  it("gives every chart's numbers as a table", async () => {
    const {digest, question} = await gatherModel();
    await open(question);
    await page.getByText("Makespan over the block length as a table").click();
    const table = page.getByRole("table", {name: "Makespan over the block length"});
    const {lengths} = await api(`/v1/models/${digest}/exploration`);
    assert.equal(await table.locator("tbody tr").count(), lengths.length);
    assert.ok((await table.locator("tbody tr").first().innerText()).includes(time(lengths[0].makespan_us)));
  });

  it("draws the curve of the makespan and tells what is pointed at", async () => {
    const {digest, question} = await gatherModel();
    await open(question);
    const paintedPixels = () => page.locator(".chart canvas").first().evaluate((canvas) => {
      const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let painted = 0;
      for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
      return painted;
    });
    assert.ok((await paintedPixels()) > 5000);
    const chart = page.locator(".chart").first(), timeline = page.locator(".timeline").first();
    await chart.locator(".u-over").hover({position: {x: 1, y: 100}});
    const {lengths} = await api(`/v1/models/${digest}/exploration`);
    const first = `block length, rows ${lengths[0].block_length}: makespan ${time(lengths[0].makespan_us)}`;
    await chart.getByText(first).waitFor();
    await timeline.locator("rect").first().dispatchEvent("pointerdown");
    await timeline.getByText(/^\w+: block \d+ of \d+: .+, 0 µs to /).first().waitFor();
    const units = await timeline.locator(".tick").evaluateAll((ticks) => ticks.map((tick) => tick.textContent.split(" ")[1]));
    assert.equal(new Set(units).size, 1, `one unit on an axis: ${units}`);
  });

  it("says where there is no page", async () => {
    for (const hash of ["nope", "machines/x", "plans/a/b", "%"]) {
      await open(hash);
      assert.equal(await textOf("h1"), "No such page", hash);
    }
    assert.deepEqual(complaints, []);
    await open("plans/%");
    assert.ok((await textOf("[role=alert]")).includes("'%' is no digest"));
  });

  it("searches, sorts and pages plans", async () => {
    await open("plans");
    const first = await api("/v1/plans?limit=50");
    const rows = page.locator("[aria-live] tbody tr");
    assert.equal(await rows.count(), 50);
    await page.getByRole("button", {name: "m", exact: true}).click();
    const smallest = Math.min(...first.items.map((item) => item.op.m));
    assert.equal(await rows.first().locator("td").nth(2).innerText(), String(smallest));
    assert.equal(await page.locator("th[aria-sort]").innerText(), "m ▲");
    await page.getByRole("button", {name: "Gain"}).click();
    await page.getByRole("button", {name: "Gain"}).click();
    const best = first.items.reduce((a, b) => (b.result.benefit > a.result.benefit ? b : a));
    const shown = await rows.first().innerText();
    for (const expected of [best.result.cut, `${(100 * best.result.benefit).toFixed(1)} %`, best.digest.slice(0, 12)])
      assert.ok(shown.includes(expected), `${expected} is not in ${shown}`);
    await page.getByRole("link", {name: "Older"}).click();
    const second = await api(`/v1/plans?limit=50&before=${first.next}`);
    await page.waitForFunction((count) => document.querySelectorAll("[aria-live] tbody tr").length === count, second.items.length);
    await open("plans");
    await page.getByLabel("Operator").selectOption("matmul_reduce_scatter");
    await page.getByRole("button", {name: "Search"}).click();
    const found = await api("/v1/plans?op=matmul_reduce_scatter");
    await page.waitForFunction((count) => document.querySelectorAll("[aria-live] tbody tr").length === count, found.items.length);
    assert.deepEqual(complaints, []);
  });

  it("shows what is kept and removed while it is looked at", async () => {
    await open("plans");
    const {digest} = (await api("/v1/plans?limit=1")).items[0];
    const plan = await api(`/v1/plans/${digest}`);
    const kept = (await api("/v1/plans", {...plan, op: {...plan.op, k: plan.op.k + 64}})).digest;
    const link = page.locator(`a[href="#/plans/${kept}"]`).first();
    await link.waitFor({timeout: 10_000});
    assert.equal((await fetch(`${base}/v1/plans/${kept}`, {method: "DELETE"})).status, 204);
    await link.waitFor({state: "detached", timeout: 10_000});
    assert.deepEqual(complaints, []);
  });

  it("tells a plan's whole story", async () => {
    const {digest} = (await api("/v1/plans?op=matmul_reduce_scatter&m=8192&n=8192&k=7168")).items[0];
    await open(`plans/${digest}`);
    const [plan, explanation, races] = await Promise.all(
      ["", "/explanation", "/races"].map((part) => api(`/v1/plans/${digest}${part}`)));
    const text = await textOf("main");
    const race = races.items.filter((item) => item.is_of_plan).pop();
    const sentences = [explanation.bound_text, ...explanation.notes, plan.runners_up[0].reason].map(sentence);
    for (const expected of [...sentences, time(race.fused_us),
      time(plan.timeline.makespan_us), time(races.anchored.makespan.us)])
      assert.ok(text.includes(expected), `${expected} is not on the page`);
    const {parameters} = explanation.sensitivity;
    assert.ok(!text.includes(sentence(parameters[0].text)));
    await page.getByText("In words").click();
    assert.ok((await textOf("main")).includes(sentence(parameters[0].text)));
    assert.equal(await page.locator("[data-parameter]").count(), parameters.length);
    const flips = parameters.reduce((sum, {lower, higher}) => sum + lower.flips.length + higher.flips.length, 0);
    assert.equal(await page.locator("[data-parameter] .flip").count(), flips);
    // Green is only what is good: a plan that loses to the best one today is good nowhere.
    const loss = explanation.sensitivity.kept_us / explanation.sensitivity.best_us - 1;
    assert.equal(await page.locator(".decisions .near").count() > 0, loss < 0.01);
    const table = page.getByRole("table", {name: "Every measured cut"});
    assert.equal(await table.locator("tbody tr").count(), races.items.length);
    assert.deepEqual(complaints, []);
  });

  it("says by how much runners-up are slower as mc2 explain does", async () => {
    const {items} = await api("/v1/plans?op=matmul_all_reduce&m=4096&n=8192&k=7392&ranks=4");
    const {losses} = await api(`/v1/plans/${items[0].digest}/explanation`);
    const sumOf = ({lane, ...parts}) => Object.values(parts).reduce((sum, us) => sum + us, 0);
    const differs = ({lost_us, difference}) => Math.abs(lost_us - sumOf(difference)) > 1;
    assert.ok(losses.some(differs), "the model has changed since");
    await open(`plans/${items[0].digest}`);
    const cells = await page.getByRole("table", {name: "Runners-up"}).locator("td:nth-child(4)").allInnerTexts();
    assert.deepEqual(cells, losses.map(({difference}) => `+${time(sumOf(difference))}`));
  });

  it("asks again for what a plan was tuned for", async () => {
    const {digest, question} = await gatherModel();
    const {best} = await api(`/v1/models/${digest}/exploration?alignment=512`);
    const asked = {alignment: "512", contention: "1.2,1.1", allow_small_gain: "true"};
    const contention = 'contention={"communication":1.1,"compute":1.2}';
    const purpose = `tuned alignment=512, ${contention}, min_block_rows=512, require_significant_gain=false`;
    const kept = (await api(`/v1/plans?purpose=${encodeURIComponent(purpose)}`, best)).digest;
    await open(`plans/${kept}`);
    const told = "alignment=512, contention=1.2,1.1, min_block_rows=512, allow_small_gain=true";
    assert.ok((await textOf("[aria-label=Summary]")).includes(told));
    assert.equal(await page.title(), `all_gather_matmul m=8192 n=7168 k=8192 bf16 x4, plan ${kept.slice(0, 12)} · mc2`);
    await page.getByRole("link", {name: "Ask and explore"}).click();
    await page.locator(`[aria-labelledby=answer-title] a[href="#/plans/${kept}"]`).waitFor();
    for (const [name, value] of Object.entries(asked))
      assert.equal(await page.getByLabel(name, {exact: true}).inputValue(), value);
    // Without its options the question has another answer; the machine may be named by the beginning of its digest.
    await open(question.replace(/machine=(.{8}).*/, "machine=$1"));
    assert.equal(await page.locator(`a[href="#/plans/${kept}"]`).count(), 0);
    assert.ok(question.endsWith(await page.getByRole("combobox", {name: "Machine"}).inputValue()));
    assert.equal((await fetch(`${base}/v1/plans/${kept}`, {method: "DELETE"})).status, 204);
    assert.deepEqual(complaints, []);
  });

  it("moves no slider to where there is no answer", async () => {
    const {items} = await api("/v1/models?op=matmul_all_reduce&m=96&n=64&k=64");
    await open(`?op=matmul_all_reduce&m=96&n=64&k=64&ranks=2&machine=${items[0].machine}`);
    await page.getByRole("slider", {name: "m", exact: true}).focus();
    await page.keyboard.press("Home");
    // Multiples of 2 ranks and of 96 / 16, from 96 down to more than 64.
    const least = await api(`/v1/models/${items[0].digest}/exploration?m=66`);
    await waitForMakespan(least.chosen.makespan.us);
    assert.deepEqual(complaints, []);
    assert.equal((await fetch(`${base}/v1/models/${items[0].digest}/exploration?m=64`)).status, 422);
  });

  it("shows a problem once", async () => {
    await open("models/ffffff");
    assert.equal(await page.locator("[role=alert]").count(), 1);
  });

  it("shows curves with their samples", async () => {
    const {digest} = (await api("/v1/models?dtype=f32")).items[0];
    await open(`models/${digest}`);
    const {curves} = await api(`/v1/models/${digest}/curves`);
    for (const [i, lane] of ["compute", "communication"].entries()) {
      const section = await page.getByRole("region", {name: `${lane} lane`, exact: true}).innerText();
      assert.ok(section.includes(sentence(curves[i].formula)), section);
      await page.getByText(`Samples of the ${lane} lane as a table`).click();
      const samples = page.getByRole("table", {name: `Samples of the ${lane} lane`});
      assert.equal(await samples.locator("tbody tr").count(), curves[i].samples.length);
    }
    assert.equal(await page.locator(".chart canvas").count(), 4); // a curve and its residuals for each lane
    assert.deepEqual(complaints, []);
  });

  it("plans a whole model, built in or the reader's own", async () => {
    const {machine} = (await api("/v1/models?op=all_gather_matmul&m=8192&n=7168&k=8192")).items[0];
    const question = `first_m=1024&m=4096&ranks=4&machine=${machine}&deadline_ms=60000`;
    await open(`llms?llm=Llama-3-8B&${question}`);
    await page.getByRole("heading", {name: "Llama-3-8B on 4 ranks"}).waitFor();
    const {sites, steps} = await api(`/v1/llms/Llama-3-8B/plan?${question}`);
    const layers = page.getByRole("table", {name: "Layers that ranks share"}).locator("tbody tr");
    assert.equal(await layers.count(), sites.filter((site) => site.ranges).length);
    const last = (await page.getByRole("table", {name: "Steps"}).locator("tbody tr").last().innerText()).split("\t");
    assert.deepEqual([last[0], last[1], last[3]], ["4 096", ...steps.slice(-2).map((step) => time(step.fused.us))]);
    await open(`llms?llm=Llama-3-8B&first_m=16&m=256&ranks=4&machine=${machine}`);
    const few = await api(`/v1/llms/Llama-3-8B/plan?first_m=16&m=256&ranks=4&machine=${machine}`);
    const text = await textOf("[aria-labelledby=answer-title]");
    const {reason} = few.sites.find((site) => site.ranges.gaps.length > 0).ranges.gaps[0];
    assert.equal(text.split(reason).length, 2, "each reason once");
    assert.ok(text.includes("not at 128, 256; else unknown") && text.includes("EXTRAPOLATED"), text);
    const config = {architectures: ["LlamaForCausalLM"], torch_dtype: "bfloat16", hidden_size: 4096, num_hidden_layers: 7,
      num_attention_heads: 32, num_key_value_heads: 8, intermediate_size: 14336};
    await page.getByLabel("or a config.json").setInputFiles({name: "mine.json", mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify(config))});
    await page.getByRole("heading", {name: "mine on 4 ranks"}).waitFor();
    assert.match(await layers.first().innerText(), /\t7\t/); // as often as it has layers
    assert.deepEqual(complaints, []);
  });

  it("shows machines and health", async () => {
    await open("machines");
    const {items} = await api("/v1/fingerprints");
    assert.deepEqual((await page.locator("h2").allTextContents()).sort(), items.map((machine) => machine.label).sort());
    await open("health");
    const {version} = await api("/version");
    const text = await textOf("main");
    assert.ok(text.includes("ready") && text.includes(version) && text.includes("/v1/fingerprints"), text);
    assert.deepEqual(complaints, []);
  });

  it("draws how the service did over time", async () => {
    for (const [where, chart, series] of [["health", "Questions for plans per interval", "questions"], ["plans", "Gain of the raced plans", "gain"]]) {
      let points = [];
      for (let tries = 0; tries < 100 && points.length < 3; ++tries) {
        ({points} = await api("/v1/history"));
        await new Promise((next) => setTimeout(next, 100));
      }
      assert.ok(points.at(-1).numbers[series] !== undefined, `${series} is kept`);
      await open(where);
      await page.getByRole("img", {name: new RegExp(`^${chart}`)}).waitFor();
      await page.getByText(new RegExp(`${chart}.* as a table`)).click();
      assert.match(await textOf(`[aria-label="History"] tbody tr`), /20\d\d-\d\d-\d\d/);
    }
    assert.deepEqual(complaints, []);
  });

  it("shows hostile names as text", async () => {
    const machine = (await api("/v1/fingerprints")).items.find((one) => hostile in one.fields);
    const [plan, model] = await Promise.all(
      ["plans", "models"].map(async (list) => (await api(`/v1/${list}?machine=${machine.digest}`)).items[0].digest));
    for (const hash of ["machines", `plans/${plan}`, `models/${model}`, `?op=matmul_all_reduce&m=8192&n=8192&k=7168&dtype=bf16&ranks=4&machine=${machine.digest}`]) {
      await open(hash);
      assert.ok((await page.locator("main").textContent()).includes(hostile), hash);
      assert.equal(await page.locator("main img, main script").count(), 0);
      assert.equal(await page.evaluate(() => window.hacked), undefined);
    }
    assert.deepEqual(complaints, []);
  });

  it("would not run a script that got into it", async () => {
    await open("health");
    await page.evaluate(() => {
      const script = document.createElement("script");
      try {
        script.textContent = "window.hacked = 1";
      } catch {} // trusted types refuse even that
      document.body.append(script);
    });
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.ok(complaints.some((text) => /Content Security Policy|TrustedScript/i.test(text)), complaints.join("\n"));
  });

  it("can be used by keyboard alone", async () => {
    await open("");
    const focused = () => page.evaluate(() => document.activeElement.textContent);
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Skip to the content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "SELECT");
    await open("");
    for (let i = 0; i < 3; ++i) await page.keyboard.press("Tab"); // past the skip link and the first page's
    assert.equal(await focused(), "Plans");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, "solid", "what has the focus is seen");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", {name: "Plans", exact: true}).waitFor();
    await page.waitForFunction(() => document.title === "Plans · mc2" && document.activeElement.id === "main");
  });

  it("fits a screen of 400 pixels", async () => {
    const narrow = await newPage({viewport: {width: 400, height: 800}});
    for (const hash of await allPages()) {
      await open(hash, narrow);
      assert.ok((await narrow.evaluate(() => document.documentElement.scrollWidth)) <= 400, `/#/${hash} scrolls sideways`);
    }
    await narrow.context().close();
  });

  // All rules once; the scheme changes nothing but colours.
  for (const [colorScheme, rules] of [["light", undefined], ["dark", ["color-contrast"]]])
    it(`has no fault that axe finds, ${colorScheme}`, async () => {
      const themed = await newPage({colorScheme});
      for (const hash of await allPages()) {
        await open(hash, themed);
        await themed.evaluate(axeSource);
        const {violations} = await themed.evaluate((runOnly) => window.axe.run(runOnly ? {runOnly} : {}), rules);
        const faults = violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
        assert.deepEqual(faults, [], `/#/${hash}`);
        const [red] = await themed.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
        assert.equal(red < 128, colorScheme === "dark");
      }
      await themed.context().close();
      assert.deepEqual(complaints, []);
    });

  it("tells a replica from its leader", async () => {
    const [replica, url] = await startService(join(directory, "replica.db"), "--follow", base);
    try {
      await open("health");
      assert.ok(!(await textOf("[aria-label=State]")).includes("Replica"));
      await page.goto(`${url}/#/health`);
      await page.getByText(/was up to date with its leader .* ago/).waitFor();
      assert.ok((await textOf("[aria-label=State]")).includes("Replica"));
    } finally {
      await stop(replica);
    }
  });

  // The last: from here on the store has a token, and the service lets in nobody without one.
  it("asks for a token and keeps it in this tab only", async () => {
    const token = mc2("token", "create", "--role", "read", "--name", "dashboard").toString().trim();
    await page.waitForTimeout(200); // a running service follows within 50 ms
    await open("machines");
    assert.ok((await textOf("[role=alert]")).includes("Enter a token"));
    await page.getByText("Token", {exact: true}).click();
    await page.getByLabel(/Bearer token/).fill(token);
    await page.getByRole("button", {name: "Use it"}).click();
    await page.getByText("NVIDIA H200").first().waitFor();
    await page.reload();
    await page.getByText("NVIDIA H200").first().waitFor();
    assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
    assert.deepEqual(await page.evaluate(() => Object.values(sessionStorage)), [token]);
  });
});
