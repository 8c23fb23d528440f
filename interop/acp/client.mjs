// client.mjs [--scenario NAME]... [--tee DIR] [--compare DIR] [-- COMMAND...]
// Plays the client's half of the scenarios against agent.mjs, one process each. COMMAND is put in front of the
// agent's own command. --tee writes the captures and trees to DIR. --compare tells what differs from those in DIR.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { Editor } from "./editor.mjs";
import { find, scenarios } from "./scenarios.mjs";
import { toAgent, toClient, Wire } from "./wire.mjs";

const patience = 30_000; // milliseconds for one scenario

const { values: flags, positionals: prefix } = parseArgs({
  allowPositionals: true,
  options: {
    scenario: { type: "string", multiple: true },
    tee: { type: "string" },
    compare: { type: "string" },
  },
});

// Plays one scenario. Returns the files of its capture, and the problems that it shows by itself.
async function play(scenario, directory) {
  const tree = join(directory, scenario.name + ".tree.json");
  const bytes = join(directory, scenario.name);
  const agent = [
    process.execPath,
    fileURLToPath(new URL("agent.mjs", import.meta.url)),
    scenario.name,
    ...["--tree", tree, "--wire", bytes],
  ];
  const [command, ...args] = [...prefix, ...agent];
  const child = spawn(command, args, { stdio: "pipe" });
  child.stdin.on("error", () => {}); // the agent may be gone
  const problems = [];
  const exit = new Promise((resolve) => {
    child.on("error", (error) => problems.push(error.message)); // it could not be started
    child.on("close", (code, signal) => resolve({ code, signal }));
  });
  const deadline = setTimeout(() => {
    problems.push(`stuck after ${patience / 1000} seconds`);
    child.kill();
  }, patience);

  const wire = new Wire(child);
  const editor = new Editor(wire, scenario.client.extensions);
  Object.assign(editor, scenario.client.holds);
  try {
    await editor.initialize();
    await scenario.client.play(editor);
  } catch (error) {
    problems.push(`${error.message}; stderr: ${wire.stderr}`);
  }
  child.stdin.end();
  const { code, signal } = await exit;
  clearTimeout(deadline);
  if (problems.length) return { problems, files: {} };

  const same = (what, got, want) => {
    if (!isDeepStrictEqual(got, want)) problems.push(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  };
  same("exit", { code, signal }, { code: scenario.agent.exitCode ?? 0, signal: null });
  // A command in front may have something of its own to say.
  const heard = (scenario.agent.stderr ?? "").split("\n").filter((line) => !wire.stderr.split("\n").includes(line));
  same("lines of the agent's stderr that are missing", heard, []);
  if (!prefix.length) same("stderr", wire.stderr, scenario.agent.stderr ?? "");
  if (wire.raw(toAgent) !== readFileSync(bytes + ".in", "utf8")) problems.push("the agent read other bytes than the client wrote");
  if (wire.raw(toClient) !== readFileSync(bytes + ".out", "utf8")) problems.push("the client read other bytes than the agent wrote");

  const treeText = readFileSync(tree, "utf8");
  for (const session of JSON.parse(treeText).sessions) {
    const seen = editor.ends.filter((end) => end.session === session.id);
    const done = session.prompts.map(({ stop_reason, error }) => ({ session: session.id, stop_reason, error }));
    same(`ends of the prompts of ${session.id}`, seen, done);
  }
  const sent = wire.messages().filter(({ message }) => message.method === "session/update");
  same("updates that the SDK's client let through", editor.updates.length, sent.length);

  if (scenario.uncommitted) return { problems, files: {} };
  return {
    problems,
    files: {
      [scenario.name + ".raw.ndjson"]: wire.raw(),
      [scenario.name + ".ndjson"]: wire.envelopes(),
      [scenario.name + ".tree.json"]: treeText,
    },
  };
}

function firstDifference(got, want) {
  const [a, b] = [got.split("\n"), want.split("\n")];
  const at = a.findIndex((line, i) => line !== b[i]);
  const line = at < 0 ? a.length : at;
  return `line ${line + 1}\n  now:       ${a[line] ?? "(end)"}\n  committed: ${b[line] ?? "(end)"}`;
}

function committed(file) {
  try {
    return readFileSync(join(flags.compare, file), "utf8");
  } catch {
    return "";
  }
}

const directory = mkdtempSync(join(tmpdir(), "acp-interop-"));
const chosen = flags.scenario?.map(find) ?? scenarios;
let failed = 0;
try {
  for (const scenario of chosen) {
    const { problems, files } = await play(scenario, directory);
    for (const [file, content] of Object.entries(files)) {
      if (flags.tee) {
        mkdirSync(flags.tee, { recursive: true });
        writeFileSync(join(flags.tee, file), content);
      }
      if (flags.compare && content !== committed(file)) {
        problems.push(`${file} differs from the committed one, ${firstDifference(content, committed(file))}`);
      }
    }
    for (const problem of problems) console.error(`${scenario.name}: ${problem}`);
    failed += problems.length > 0;
  }
} finally {
  rmSync(directory, { recursive: true });
}
console.log(`${chosen.length - failed} of ${chosen.length} scenarios ok${prefix.length ? ` through ${prefix.join(" ")}` : ""}`);
if (failed) process.exitCode = 1;
