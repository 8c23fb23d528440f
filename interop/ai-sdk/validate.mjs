// validate.mjs FILE...
// Reads guide exports and lets both releases of the AI SDK judge their parts: its UI message validation has to accept
// them and the newest to know every key, and it has to be able to make model messages of them. Exit 1 with the first failures.

import { isDeepStrictEqual } from "node:util";
import { readMessages } from "./rows.mjs";
import { sdks } from "./sdks.mjs";

// Kinds of parts of the guide's own; the AI SDK has no say in them.
const guideKinds = ["file-ref", "directory-ref", "file-attachment", "command", "mention", "editor-context"];

// What came with the newest release: kinds, and keys by kind ("tool" stands for both sorts of tool parts).
const newKinds = ["custom", "reasoning-file", "steering-message"];

const shown = 5; // failures of a file and release

// The keys in a that b lacks, as paths; a is what we wrote, b what the SDK made of it.
function lost(a, b, path = "") {
  if (isDeepStrictEqual(a, b)) return [];
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return [path];
  return Object.keys(a).flatMap((key) => (key in b ? lost(a[key], b[key], `${path}/${key}`) : [`${path}/${key}`]));
}

// A zod error of a union lists every alternative; its first issues say enough.
function reason(error) {
  const issues = error.cause?.issues ?? error.issues;
  if (!issues) return (error.cause?.message ?? error.message).split("\n")[0];
  return issues.slice(0, 2).map((issue) => `${issue.path.join("/") || "part"}: ${issue.message}`).join("; ");
}

async function judge({ name, ai }, messages) {
  const problems = [];
  const count = { messages: 0, parts: 0, skipped: 0 };
  const conversation = [];
  for (const { where, row, metadata, parts } of messages) {
    if (!["user", "assistant", "system"].includes(row.role)) {
      problems.push(`${where}: role ${row.role}`);
      continue;
    }
    const judged = parts.filter(({ part }) => {
      const foreign = guideKinds.includes(part?.type) || (name === "v6" && newKinds.includes(part?.type));
      count.skipped += foreign;
      return !foreign;
    });
    for (const { where, row: partRow, part } of judged) {
      count.parts++;
      if (partRow.type !== part?.type) problems.push(`${where}: column type is ${partRow.type}, the part's is ${part?.type}`);
      // One by one, so that each failure has its place.
      const message = { id: row.id, role: row.role, parts: [structuredClone(part)] };
      const result = await ai.safeValidateUIMessages({ messages: [message] });
      if (!result.success) {
        problems.push(`${where} (${part?.type}): ${reason(result.error)}`);
        continue;
      }
      const unknown = lost(part, result.data[0].parts[0]);
      if (unknown.length && name === sdks.at(-1).name) problems.push(`${where} (${part.type}): the SDK does not know ${unknown.join(", ")}`);
    }
    if (!judged.length) continue;
    count.messages++;
    conversation.push({ id: row.id, role: row.role, metadata, parts: judged.map(({ part }) => structuredClone(part)) });
  }
  if (problems.length || !conversation.length) return { problems, count };

  // Together, as an application does it before it calls the model.
  try {
    const valid = await ai.validateUIMessages({ messages: conversation });
    await ai.convertToModelMessages(valid, { ignoreIncompleteToolCalls: true });
  } catch (error) {
    problems.push(`all messages together: ${reason(error)}`);
  }
  return { problems, count };
}

const files = process.argv.slice(2);
if (!files.length) {
  console.error("usage: validate.mjs FILE...");
  process.exit(2);
}
let judged = 0;
for (const file of files) {
  let messages;
  try {
    messages = readMessages(file);
  } catch (error) {
    console.error(`${file}: not a guide export: ${error.message}`);
    process.exitCode = 1;
    continue;
  }
  for (const sdk of sdks) {
    const { problems, count } = await judge(sdk, messages);
    judged += count.parts;
    for (const problem of problems.slice(0, shown)) console.error(`ai ${sdk.version}: ${problem}`);
    if (problems.length > shown) console.error(`ai ${sdk.version}: ${file}: ${problems.length - shown} more`);
    if (problems.length) process.exitCode = 1;
    else console.log(`ai ${sdk.version}: ${file}: ok, ${count.messages} messages, ${count.parts} parts, ${count.skipped} of other kinds skipped`);
  }
}
if (!judged) {
  console.error("no part to judge");
  process.exitCode = 1;
}
